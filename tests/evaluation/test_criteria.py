"""Scores after the fit of one parameter against scikit-learn and scipy, and the choice of the best."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import norm
from sklearn.metrics import accuracy_score, log_loss

from hf_bam.evaluation.criteria import CLASSES, NUMBERS, best_index, class_scores, number_scores

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(3, size=200)
LOGITS = 3 * (np.eye(3)[LABELS] + RANDOM.normal(size=(4, 200, 3)))
TARGETS, SAMPLES = RANDOM.normal(size=200), RANDOM.normal(size=(5, 200))


def test_scores_of_classes_are_those_at_the_best_temperature():
    def loss(temperature):
        return log_loss(LABELS, softmax(LOGITS / temperature, axis=-1).mean(axis=0))

    best = minimize_scalar(loss, bounds=(0.1, 20), method="bounded", options={"xatol": 1e-8})
    scores = class_scores(LABELS, softmax(LOGITS, axis=-1))
    assert scores.keys() == {"temperature", *CLASSES}
    assert scores["temperature"] == pytest.approx(best.x, rel=1e-3)
    assert scores["nll"] == pytest.approx(best.fun, abs=1e-7)
    mean = softmax(LOGITS / scores["temperature"], axis=-1).mean(axis=0)
    assert scores["accuracy"] == accuracy_score(LABELS, mean.argmax(-1))
    assert scores["brier"] == pytest.approx(((mean - np.eye(3)[LABELS]) ** 2).sum(-1).mean())


@pytest.mark.parametrize("spread", [1e-3, 0.2, 3.0])
def test_scores_of_numbers_are_those_of_the_best_gaussians(spread):
    samples = TARGETS + 0.5 * norm.rvs(size=200, random_state=1) + spread * SAMPLES
    mean, std = samples.mean(axis=0), samples.std(axis=0, ddof=1)
    error = np.sqrt(np.mean((TARGETS - mean) ** 2))

    def loss(target_std):
        return -norm.logpdf(TARGETS, mean, np.sqrt(std**2 + target_std**2)).mean()

    best = min(map(loss, np.linspace(1e-3, 3, 3000) * error))
    scores = number_scores(TARGETS, samples)
    assert scores.keys() == {"target_std", *NUMBERS}
    assert scores["nll"] == pytest.approx(best, abs=1e-5)
    assert scores["nll"] == pytest.approx(loss(scores["target_std"]), abs=1e-9)
    draws = norm.rvs(mean, np.hypot(std, scores["target_std"]), size=(4000, 200), random_state=2)
    half = 2000
    crps = abs(draws - TARGETS).mean() - abs(draws[:half] - draws[half:]).mean() / 2
    assert scores["crps"] == pytest.approx(crps, rel=0.02)
    assert scores["pearson"] == pytest.approx(np.corrcoef(TARGETS, mean)[0, 1])


def test_one_sample_has_the_variance_of_the_errors():
    scores = number_scores(TARGETS, SAMPLES[:1])
    assert scores["target_std"] == pytest.approx(np.sqrt(np.mean((TARGETS - SAMPLES[0]) ** 2)), rel=1e-4)
    assert math.isfinite(number_scores(TARGETS, TARGETS[None])["nll"])


def test_the_best_row_is_the_first_with_the_best_value():
    rows = [{"x": math.nan}, {"x": 2.0}, {"x": 1.0}, {"x": 2.0}, {"x": 1.0}]
    assert best_index(rows, "x", higher=True) == 1
    assert best_index(rows, "x", higher=False) == 2
    with pytest.raises(ValueError, match="criterion='x' is not defined on these inputs"):
        best_index(rows[:1], "x", higher=True)
