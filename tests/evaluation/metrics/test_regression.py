import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, pearsonr, spearmanr

from hf_bam.evaluation.metrics import (
    crps,
    gaussian_crps,
    gaussian_nll,
    interval_coverage,
    pearson,
    sharpness,
    spearman,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_correlations_by_hand():
    assert pearson([2, 4, 6], [1, 2, 3]) == pytest.approx(1)
    assert pearson([3, 2, 1], [1, 2, 3]) == pytest.approx(-1)
    # Deviations (-1, 0, 1) and (-1, 1, 0): 1 / sqrt(2 * 2).
    assert pearson([0, 2, 1], [1, 2, 3]) == pytest.approx(0.5)
    assert spearman([1, 2, 3], [1, 10, 100]) == pytest.approx(1)
    assert pearson([1, 2, 3], [1, 10, 100]) < 0.95


def test_correlations_against_scipy(rng):
    x = rng.normal(size=50).round(1)
    y = (x + rng.normal(size=50)).round(1)
    assert pearson(y, x) == pytest.approx(pearsonr(x, y).statistic)
    assert spearman(y, x) == pytest.approx(spearmanr(x, y).statistic)


@pytest.mark.parametrize("function", [pearson, spearman])
@pytest.mark.parametrize("constant", [[0, 0, 0], [2.5, 2.5, 2.5], [0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2]])
def test_a_constant_has_no_correlation(function, constant):
    assert function(constant, [1, 2, 3]) == 0.0
    assert function([1, 2, 3], constant) == 0.0


def test_rounding_is_no_correlation():
    assert pearson([1, 2, 1], [0.3, 0.1 + 0.2, 0.3]) == 0.0
    assert pearson([3.0], [7.0]) == 0.0


def test_gaussian_nll_by_hand(rng):
    assert gaussian_nll([0], [0], [1]) == pytest.approx(math.log(2 * math.pi) / 2)
    assert gaussian_nll([5], [1], [2]) == pytest.approx(math.log(2 * math.sqrt(2 * math.pi)) + 2)
    mean, std, y = rng.normal(size=9), rng.random(9) + 0.1, rng.normal(size=9)
    assert gaussian_nll(y, mean, std) == pytest.approx(-norm(mean, std).logpdf(y).mean())


def test_crps_by_hand():
    # Samples 0 and 1, target 0: E|X - y| = 1/2, E|X - X'| = 1/2.
    assert crps([0.0], [[0.0], [1.0]]) == pytest.approx(1 / 4)
    assert crps([3.0], [[0.0], [1.0]]) == pytest.approx(2.5 - 1 / 4)
    assert crps([5.0, 1.0], [[2.0, 2.0]]) == pytest.approx((3 + 1) / 2)
    assert crps([5.0], [[5.0], [5.0]]) == 0.0


def test_crps_is_the_double_sum_over_samples(rng):
    samples, targets = rng.normal(size=(11, 6)), rng.normal(size=6)
    distance = abs(samples[:, None] - samples[None]).mean(axis=(0, 1))
    expected = abs(samples - targets).mean(axis=0) - distance / 2
    assert crps(targets, samples) == pytest.approx(expected.mean())
    assert crps(targets + 1e9, samples + 1e9) == pytest.approx(expected.mean(), rel=1e-5)


def test_gaussian_crps_is_the_integral_of_the_squared_difference_of_distributions():
    mean, std, y = 0.3, 0.7, 1.1
    below, _ = quad(lambda x: norm.cdf(x, mean, std) ** 2, -8, y)
    above, _ = quad(lambda x: norm.sf(x, mean, std) ** 2, y, 8)
    assert gaussian_crps([y], [mean], [std]) == pytest.approx(below + above, abs=1e-8)
    assert gaussian_crps([0], [0], [1]) == pytest.approx((math.sqrt(2) - 1) / math.sqrt(math.pi))


def test_many_samples_have_the_crps_of_their_distribution():
    samples = norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    assert crps([2.0], 1 + 2 * samples) == pytest.approx(gaussian_crps([2], [1], [2]), abs=1e-4)


def test_intervals_by_hand():
    # Samples 0 to 100: the central 90 % are [5, 95], both ends included.
    samples = np.repeat(np.arange(101.0)[:, None], 4, axis=1)
    assert sharpness(samples) == pytest.approx(90)
    assert sharpness(samples, level=0.5) == pytest.approx(50)
    assert interval_coverage([4.9, 5.1, 94.9, 95.1], samples) == 0.5
    assert interval_coverage([24.9, 25.1, 74.9, 75.1], samples, level=0.5) == 0.5
    assert interval_coverage([3.0], [[3.0], [3.0]]) == 1.0


def test_calibrated_samples_cover_at_their_level(rng):
    assert interval_coverage(rng.normal(size=3000), rng.normal(size=(400, 3000)), 0.8) == pytest.approx(0.8, abs=0.03)


def test_errors():
    for function in (gaussian_nll, gaussian_crps):
        with pytest.raises(ValueError, match="std has the value 0; expected standard deviations above 0"):
            function([0, 0], [0, 0], [1, 0])
        with pytest.raises(ValueError, match="std has 1 values and mean has 2 inputs"):
            function([0, 0], [0, 0], [1])
        with pytest.raises(ValueError, match="targets has 1 values and mean has 2 inputs"):
            function([0], [0, 0], [1, 1])
    for function in (crps, interval_coverage):
        with pytest.raises(ValueError, match=r"samples has shape \(3,\); expected \(S, B\)"):
            function([1, 2, 3], [1, 2, 3])
        with pytest.raises(ValueError, match="targets has 3 values and samples has 2 inputs"):
            function([1, 2, 3], [[1, 2]])
    for level in (0, 1, 90, float("nan")):
        with pytest.raises(ValueError, match=r"level=.* is not valid; it must be between 0 and 1"):
            interval_coverage([1, 2], [[1, 2]], level)
        with pytest.raises(ValueError, match=r"level=.* is not valid"):
            sharpness([[1, 2]], level)
