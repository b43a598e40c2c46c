"""Scores of real-valued predictions and of their predictive distributions."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, pearsonr, rankdata

from ._arrays import Array, Numbers, numbers, vector


def pearson(targets: Numbers, predictions: Numbers) -> float:
    """Return the linear correlation of (B,) targets with (B,) predictions, in [-1, 1]; 0 when either is constant."""
    truth, guess = _pair(targets, predictions)
    if _is_constant(guess) or _is_constant(truth):
        return 0.0
    return float(pearsonr(truth, guess).statistic)


def spearman(targets: Numbers, predictions: Numbers) -> float:
    """Return the rank correlation of (B,) targets with (B,) predictions, in [-1, 1]; 0 when either is constant."""
    truth, guess = _pair(targets, predictions)
    return pearson(rankdata(truth), rankdata(guess))


def gaussian_nll(targets: Numbers, mean: Numbers, std: Numbers) -> float:
    """Return the mean of -log N(y; mean, std^2) = log(std sqrt(2 pi)) + (y - mean)^2 / (2 std^2), in nats.

    Args:
        targets: (B,) true values.
        mean: (B,) predicted means.
        std: (B,) predicted standard deviations, above 0.
    """
    return float(-norm.logpdf(*_gaussian(targets, mean, std)).mean())


def gaussian_crps(targets: Numbers, mean: Numbers, std: Numbers) -> float:
    """Return the mean CRPS of N(mean, std^2), std [z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)].

    z = (y - mean) / std. Gneiting and Raftery (2007), in the units of the targets; lower is better.

    Args:
        targets: (B,) true values.
        mean: (B,) predicted means.
        std: (B,) predicted standard deviations, above 0.
    """
    truth, centre, scale = _gaussian(targets, mean, std)
    z = (truth - centre) / scale
    return float((scale * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))).mean())


def crps(targets: Numbers, samples: Numbers) -> float:
    """Return the mean CRPS of the empirical distributions, E|X - y| - E|X - X'| / 2, exact; lower is better.

    One sample gives the absolute error. With the samples sorted, E|X - X'| / 2 = sum_i (2i - S - 1) x_i / S^2.

    Args:
        targets: (B,) true values.
        samples: (S, B) predictions.
    """
    truth, array = _sampled(targets, samples)
    # Distances do not change with the origin, and around the target large offsets cost no digits.
    error = np.sort(array - truth, axis=0)
    count = len(error)
    weight = 2 * np.arange(1, count + 1) - count - 1
    return float((abs(error).mean(axis=0) - weight @ error / count**2).mean())


def interval_coverage(targets: Numbers, samples: Numbers, level: float = 0.9) -> float:
    """Return the share of targets inside the central quantile interval of the samples; near `level` if calibrated.

    Args:
        targets: (B,) true values.
        samples: (S, B) predictions.
        level: probability of the interval, its ends are the quantiles (1 - level) / 2 and (1 + level) / 2.
    """
    truth, array = _sampled(targets, samples)
    low, high = _interval(array, level)
    return float(((low <= truth) & (truth <= high)).mean())


def sharpness(samples: Numbers, level: float = 0.9) -> float:
    """Return the mean width of the central quantile interval of (S, B) samples; lower is better at equal coverage."""
    low, high = _interval(_matrix(samples), level)
    return float((high - low).mean())


def _pair(targets: Numbers, predictions: Numbers) -> tuple[Array, Array]:
    guess = vector(predictions, "predictions")
    return vector(targets, "targets", len(guess), "predictions"), guess


def _is_constant(array: Array) -> bool:
    """Return whether the values differ by rounding at most, where a correlation would be noise."""
    return bool(np.ptp(array) <= 1e-12 * abs(array).max())


def _gaussian(targets: Numbers, mean: Numbers, std: Numbers) -> tuple[Array, Array, Array]:
    """Return targets, means and standard deviations, in scipy's order."""
    centre = vector(mean, "mean")
    scale = vector(std, "std", len(centre), "mean")
    if (scale <= 0).any():
        raise ValueError(f"std has the value {scale.min():g}; expected standard deviations above 0.")
    return vector(targets, "targets", len(centre), "mean"), centre, scale


def _matrix(samples: Numbers) -> Array:
    array = numbers(samples, "samples")
    if array.ndim != 2:
        raise ValueError(f"samples has shape {array.shape}; expected (S, B): samples, inputs.")
    return array


def _sampled(targets: Numbers, samples: Numbers) -> tuple[Array, Array]:
    array = _matrix(samples)
    return vector(targets, "targets", array.shape[1], "samples"), array


def _interval(array: Array, level: float) -> tuple[Array, Array]:
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} is not valid; it must be between 0 and 1, e.g. 0.9.")
    low, high = np.quantile(array, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
