"""Predictors of trained models."""

import pytest

from hf_bam.prediction import BamPredictor

from .trained import scores, sentences, train

OPTIONS = {"num_samples": 8, "batch_size": 64, "progress": False}


@pytest.fixture(scope="session")
def classifier(tokenizer):
    return train(tokenizer, *sentences(2000))


@pytest.fixture(scope="session")
def regressor(tokenizer):
    texts, _ = sentences(2000)
    return train(tokenizer, texts, scores(texts).astype("float32"), num_labels=1, problem_type="regression")


@pytest.fixture
def classify(classifier, tokenizer):
    """Return a predictor of topics without any fit."""
    return BamPredictor(classifier, tokenizer, **OPTIONS)


@pytest.fixture
def regress(regressor, tokenizer):
    """Return a predictor of numbers without any fit."""
    return BamPredictor(regressor, tokenizer, **OPTIONS)
