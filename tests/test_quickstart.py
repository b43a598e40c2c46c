"""The training loop of scripts/quickstart.py, on a tiny model."""

import importlib.util
from pathlib import Path

import torch

import hf_bam
from hf_bam.tasks.sentiment import Sentence

from .models import bert


def load_script():
    path = Path(__file__).parents[1] / "scripts" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3), k=1.0)
    sentences = [Sentence("good", 1.0, 0.0), Sentence("bad", -1.0, 0.0)] * 16
    frozen = model.bert.embeddings.word_embeddings.weight.clone()
    load_script().train(model, tokenizer, sentences, steps=300)
    good, bad = hf_bam.BamPredictor(model, tokenizer, samples=3)(["good", "bad"]).samples[:, :, 1].mean(axis=0)
    assert good > bad + 0.3
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, frozen)
    assert model.bam_step.item() == 300
