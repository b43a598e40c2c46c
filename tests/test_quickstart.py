"""The parts of scripts/quickstart.py, on a tiny model."""

import importlib.util
from pathlib import Path

import pytest
import torch

import hf_bam
from hf_bam.tasks.sentiment import Sentence

from .models import bert


@pytest.fixture(scope="module")
def quickstart():
    path = Path(__file__).parents[1] / "scripts" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns_and_draws(quickstart, tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3), k=1.0)
    sentences = [Sentence("good", 1.0, 0.0), Sentence("bad", -1.0, 0.0)] * 16

    def encode(texts):
        return tokenizer(texts, padding=True, return_tensors="pt")

    frozen = model.bert.embeddings.word_embeddings.weight.clone()
    quickstart.train(model, encode, sentences, steps=300)
    draws = quickstart.positive(model, encode, ["good", "bad"] * 40, draws=3)
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, frozen)
    assert draws.shape == (3, 80)
    assert draws.mean(0)[0] > draws.mean(0)[1] + 0.3
    assert (draws.std(0) > 0).all()
    assert model.bam_step.item() == 300
