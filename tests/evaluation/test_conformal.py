"""Coverage of sets and intervals on simulated data, and values that can be computed by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from hf_bam.evaluation.conformal import (
    IntervalFit,
    abstention_threshold,
    class_scores,
    fit_sets,
    prediction_sets,
    quantile,
)


def examples(number, seed, classes=10, sharpness=2.0):
    """Labels of a known distribution, and probabilities of a model that is too confident."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(number, classes)) * sharpness
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([random.choice(classes, p=row) for row in true])
    claimed = true**2 / (true**2).sum(axis=1, keepdims=True)
    return labels, claimed, random.random(number)


def test_the_quantile_by_hand():
    scores = np.arange(1.0, 10.0)  # nine scores: the k-th is exceeded with probability (10 - k) / 10
    assert quantile(scores, 0.5) == 5.0
    assert quantile(scores, 0.2) == 8.0
    assert quantile(scores, 0.1) == 9.0
    assert quantile(scores, 0.09) == math.inf
    with pytest.raises(ValueError, match="alpha=0"):
        quantile(scores, 0)


def test_the_scores_of_classes_by_hand():
    found = class_scores(np.array([[0.2, 0.5, 0.3]]), np.array([0.5]))
    np.testing.assert_allclose(found, [[0.8 + 0.1, 0.25, 0.5 + 0.15]])


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_have_their_coverage_though_the_model_is_overconfident(alpha):
    coverage = []
    for seed in range(40):
        labels, probabilities, uniform = examples(500, seed)
        threshold = fit_sets(labels[:250], probabilities[:250], uniform[:250], alpha)
        sets = prediction_sets(probabilities[250:], uniform[250:], threshold)
        coverage.append(sets[np.arange(250), labels[250:]].mean())
    standard_error = np.std(coverage, ddof=1) / math.sqrt(40)
    assert abs(np.mean(coverage) - (1 - alpha)) < 4 * standard_error + 1 / 250
    plain = probabilities[250:].max(axis=1).mean() - (probabilities[250:].argmax(1) == labels[250:]).mean()
    assert plain > 0.05  # the probabilities themselves are wrong


def test_scores_of_true_classes_are_uniform_where_probabilities_are_right():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(5), size=4000)
    labels = np.array([random.choice(5, p=row) for row in probabilities])
    scores = class_scores(probabilities, random.random(4000))[np.arange(4000), labels]
    assert stats.kstest(scores, "uniform").pvalue > 1e-3


def test_sets_are_larger_where_the_model_is_less_certain():
    labels, probabilities, uniform = examples(2000, 0)
    sets = prediction_sets(probabilities, uniform, fit_sets(labels, probabilities, uniform, 0.1))
    confidence = probabilities.max(axis=1)
    assert sets[confidence < 0.4].sum(axis=1).mean() > 2 * sets[confidence > 0.9].sum(axis=1).mean()


def test_intervals_have_their_coverage_and_follow_the_standard_deviation():
    coverage, random = [], np.random.default_rng(0)
    for _ in range(60):
        std = random.uniform(0.1, 1.0, size=400)
        mean = random.normal(size=400)
        targets = mean + 3 * std * random.normal(size=400)  # the samples claim a third of the error
        fit = IntervalFit.fit(targets[:200], mean[:200], std[:200], alpha=0.1)
        low, high = fit.intervals(mean[200:], std[200:])
        coverage.append(((low <= targets[200:]) & (targets[200:] <= high)).mean())
        assert np.corrcoef(high - low, std[200:])[0, 1] > 0.99
    assert np.mean(coverage) == pytest.approx(0.9, abs=0.015)


def test_answered_inputs_keep_the_risk():
    """The bound may fail in a tenth of the held-out sets; Clopper and Pearson with a union bound fail less often."""
    random = np.random.default_rng(0)
    failures = answered = 0
    for _ in range(100):
        uncertainty = random.random(2000)
        losses = random.random(2000) < 0.4 * uncertainty
        threshold = abstention_threshold(losses, uncertainty, risk=0.1, confidence=0.9)
        failures += 0.4 * threshold / 2 > 0.1  # the true error rate below the threshold
        answered += threshold
    assert failures <= 10
    assert answered / 100 > 0.3  # 0.5 would be the best


def test_abstention_without_a_valid_threshold_and_with_ties():
    assert abstention_threshold(np.ones(50), np.linspace(0, 1, 50), risk=0.1) == -math.inf
    tied = abstention_threshold(np.zeros(100), np.zeros(100), risk=0.1)
    assert tied == 0.0
    with pytest.raises(ValueError, match="risk=2"):
        abstention_threshold(np.zeros(5), np.zeros(5), risk=2)
