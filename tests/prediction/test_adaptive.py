"""Adaptive sampling: the decision over all samples, from fewer of them, with a given error."""

import numpy as np
import pytest
from scipy import stats

from hf_bam.evaluation.metrics import top_two_p_values
from hf_bam.prediction.adaptive import critical_ratio, decide_early, schedule


def simulate(seed, inputs, total, classes):
    """Return (total, inputs, classes) probabilities; inputs differ in the distance and spread of their samples."""
    random = np.random.default_rng(seed)
    centre = random.normal(0, 0.5, (inputs, classes)) * random.choice([0.05, 0.3, 1.5], (inputs, 1))
    spread = random.choice([0.05, 0.3, 1.0], (inputs, 1))
    logits = centre + spread * random.normal(size=(total, inputs, classes))
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_the_critical_ratio_is_that_of_the_t_test():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 32))
    for threshold in (0.05, 0.2):
        pooled = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
        shift = critical_ratio(32, threshold) * pooled - (first.mean() - second.mean())
        assert stats.ttest_ind(first + shift, second).pvalue == pytest.approx(threshold)


def test_looks_double_up_to_the_total():
    assert schedule(32, 4) == [4, 8, 16, 32]
    assert schedule(20, 4) == [4, 8, 16, 20]
    assert schedule(3, 4) == [3]


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("threshold", [0.05, 0.001])
@pytest.mark.parametrize("error", [0.01, 0.05])
def test_the_given_error_is_kept_and_samples_are_saved(classes, threshold, error):
    total = 32
    samples = simulate(1, 4000, total, classes)
    looks = schedule(total, 4)
    drawn, decision = np.zeros(4000, dtype=int), np.zeros(4000, dtype=bool)
    for look in looks:
        done, certain = decide_early(samples[:look], total, threshold, error / (len(looks) - 1))
        done &= drawn == 0
        drawn[done], decision[done] = look, certain[done]
    full = top_two_p_values(samples) < threshold
    assert 0.2 < full.mean() < 0.9
    assert (decision != full).mean() <= error
    assert (drawn > 0).all()
    assert drawn.mean() < 0.9 * total


def test_samples_that_do_not_differ_are_decided_at_once():
    samples = np.tile([[0.6, 0.4], [0.5, 0.5]], (4, 1, 1))
    decided, certain = decide_early(samples, 32, 0.05, 0.01)
    assert decided.all()
    assert certain.tolist() == [True, False]


def test_with_all_samples_the_decision_is_that_of_the_test():
    samples = simulate(0, 500, 32, 4)
    decided, certain = decide_early(samples, 32, 0.05, 0.01)
    assert decided.all()
    assert np.array_equal(certain, top_two_p_values(samples) < 0.05)
