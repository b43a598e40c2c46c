"""Tiny models of every kind that a demo shows."""

import pytest
import torch
from transformers import BertConfig, BertForQuestionAnswering

import hf_bam
from hf_bam.demo import Session
from hf_bam.prediction import BamPredictor

from ..models import SMALL, bert, marian

NAMES = ["bad", "good"]


def session_of(model, tokenizer, **options):
    return Session(BamPredictor(hf_bam.patch(model.eval(), k=1.0), tokenizer, num_samples=6, **options), "tiny")


@pytest.fixture(scope="session")
def classifier(tokenizer):
    """A session with prediction sets and novelty."""
    torch.manual_seed(0)
    model = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.2)
    model.config.id2label, model.config.label2id = dict(enumerate(NAMES)), {name: i for i, name in enumerate(NAMES)}
    session = session_of(model, tokenizer)
    texts = [f"text number {number} of the set" for number in range(40)]
    labels = [number % 2 for number in range(40)]
    session.predictor.fit(texts, labels, held_out=texts[:20]).conformal(texts, labels)
    return session


@pytest.fixture(scope="session")
def questions(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), "initializer_range": 0.2, "num_labels": 2})
    return session_of(BertForQuestionAnswering(config), tokenizer)


@pytest.fixture(scope="session")
def translator(single_tokenizer):
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 102, "init_std": 0.2}
    model = marian(vocab_size=len(single_tokenizer), **special)
    return session_of(model, single_tokenizer, generation={"max_new_tokens": 5, "num_beams": 1})


@pytest.fixture(scope="session")
def regressor(tokenizer):
    torch.manual_seed(0)
    return session_of(bert(vocab_size=len(tokenizer), num_labels=1, initializer_range=0.2), tokenizer)
