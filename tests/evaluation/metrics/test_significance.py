import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_ind_from_stats, ttest_rel

from hf_bam.evaluation.metrics import pavpu, pavpu_from, top_two_p_values

from .cases import random_samples


def test_by_hand():
    # Class 0: 0.6, 0.8; class 1: 0.4, 0.2. Means 0.7 and 0.3, variances 0.02 each: t = 0.4 / sqrt(0.04 / 2) = 2.828
    # with 2 degrees of freedom, where P(|T| > t) = 1 - t / sqrt(t^2 + 2) = 0.10557.
    samples = [[[0.6, 0.4]], [[0.8, 0.2]]]
    assert top_two_p_values(samples) == pytest.approx(1 - np.sqrt(8 / 10))
    # Differences 0.2, 0.6: t = 0.4 / sqrt(0.08 / 2) = 2 with 1 degree of freedom: 1 - 2 atan(2) / pi = 0.29517.
    assert top_two_p_values(samples, paired=True) == pytest.approx(1 - 2 * np.arctan(2) / np.pi)


@pytest.mark.parametrize(("paired", "test"), [(False, ttest_ind), (True, ttest_rel)])
@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize("classes", [2, 5])
def test_against_scipy(paired, test, count, classes):
    samples, _ = random_samples(count=count, classes=classes)
    order = samples.mean(axis=0).argsort(axis=-1)
    for b, p in enumerate(top_two_p_values(samples, paired)):
        first, second = samples[:, b, order[b, -1]], samples[:, b, order[b, -2]]
        assert p == pytest.approx(test(first, second).pvalue, rel=1e-9)


@pytest.mark.parametrize("paired", [False, True])
def test_samples_that_are_all_equal(paired):
    # 0.1 * 3 is not a multiple of 0.1 in floats, so the variance is rounding and not an exact 0.
    samples = np.repeat([[[0.7, 0.2, 0.1], [0.45, 0.45, 0.1], [1.0, 0.0, 0.0]]], 3, axis=0)
    assert top_two_p_values(samples, paired).tolist() == [0.0, 1.0, 0.0]


def test_differences_that_are_all_equal():
    # Both classes vary, their difference is always one half, up to rounding.
    samples = [[[0.7, 0.2, 0.05, 0.05]], [[0.6, 0.1, 0.15, 0.15]], [[0.65, 0.15, 0.1, 0.1]]]
    assert top_two_p_values(samples, paired=True) == 0.0
    assert 0 < top_two_p_values(samples)[0] < 0.01


def test_one_class_without_variance():
    samples = np.array([[[0.5, 0.3, 0.2]], [[0.5, 0.1, 0.4]], [[0.5, 0.4, 0.1]]])
    second = samples[:, 0, 1]
    expected = ttest_ind_from_stats(0.5, 0, 3, second.mean(), second.std(ddof=1), 3).pvalue
    assert top_two_p_values(samples)[0] == pytest.approx(expected)


def test_pavpu_by_hand():
    # p-values 0, 0 (significant), 1, 1 (not significant); predictions 0, 0, 0, 0.
    samples = np.repeat([[[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]], 2, axis=0)
    assert pavpu([0, 0, 1, 1], samples) == 1.0
    assert pavpu([1, 1, 0, 0], samples) == 0.0
    assert pavpu([0, 1, 0, 1], samples) == 0.5
    assert pavpu([0, 0, 1, 0], samples) == 0.75


def test_significant_is_strictly_below_the_threshold():
    assert pavpu_from([1], [0.05], 0.05) == 0.0
    assert pavpu_from([1], [0.049], 0.05) == 1.0


def test_fractional_accuracies():
    # 0.75 of the significant input and 1 - 0.25 of the other one.
    assert pavpu_from([0.75, 0.25], [0.01, 0.5]) == pytest.approx(0.75)
    assert pavpu_from([0.2, 1.0], [0.01, 0.5]) == pytest.approx(0.1)


@pytest.mark.parametrize("paired", [False, True])
def test_pavpu_is_pavpu_from_its_parts(paired):
    samples, labels = random_samples()
    correct = samples.mean(axis=0).argmax(axis=-1) == labels
    p = top_two_p_values(samples, paired)
    significant = p < 0.1
    expected = ((correct & significant) | (~correct & ~significant)).mean()
    assert pavpu(labels, samples, 0.1, paired) == pytest.approx(expected)
    assert pavpu_from(correct, p, 0.1) == pytest.approx(expected)


def test_many_thresholds_give_many_values():
    samples, labels = random_samples()
    thresholds = [0.0, 0.01, 0.05, 0.5, 1.0]
    result = pavpu(labels, samples, thresholds)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, [pavpu(labels, samples, threshold) for threshold in thresholds])
    assert len(set(result.tolist())) > 2
    # At 0 nothing is significant, so PAvPU is the error rate.
    assert result[0] == pytest.approx((samples.mean(axis=0).argmax(axis=-1) != labels).mean())


def test_errors():
    samples, labels = random_samples()
    for function in (lambda s: top_two_p_values(s), lambda s: pavpu(labels, s)):
        with pytest.raises(ValueError, match=r"shape \(1, 60, 3\); a t-test needs .* at least two samples"):
            function(samples[:1])
    with pytest.raises(ValueError, match="two classes"):
        top_two_p_values(np.ones((3, 4, 1)))
    with pytest.raises(ValueError, match="threshold has the value 5; expected numbers from 0 to 1"):
        pavpu(labels, samples, [0.05, 5])
    with pytest.raises(ValueError, match="threshold has the value -1"):
        pavpu(labels, samples, -1)
    with pytest.raises(ValueError, match="threshold is empty"):
        pavpu(labels, samples, [])
    with pytest.raises(ValueError, match=r"p_values has the value 1\.5"):
        pavpu_from([1], [1.5])
    with pytest.raises(ValueError, match="accuracies has the value 75"):
        pavpu_from([75], [0.5])
