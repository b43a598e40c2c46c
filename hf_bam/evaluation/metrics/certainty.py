"""Whether a prediction is certain, by a t-test between its two likeliest classes, and whether certainty is deserved.

PAvPU, patch accuracy versus patch uncertainty (Mukhoti and Gal, 2018), with the test of Fan et al. (2020).
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from ._arrays import Array, Numbers, classified, draws, numbers, predicted, vector

ROUNDING = 1e-12
"""Differences between probabilities below this are rounding."""


def top_two_p_values(samples: Numbers, paired: bool = False) -> Array:
    """(B,) p-values of a two-sided t-test between the draws of the two classes with the highest means.

    Without any variance p is 0 when the means differ and 1 when they are equal.

    Args:
        samples: (S, B, C) class probabilities of at least two draws.
        paired: False: two samples of equal variance, as `scipy.stats.ttest_ind`; True: the differences within each
            draw, as `scipy.stats.ttest_rel`.
    """
    first, second = _top_two(samples)  # (S, B) each
    count = len(first)
    # scipy's own tests warn when the draws of a class are all alike, so only its t distribution is used.
    if paired:
        variance, freedom = (first - second).var(axis=0, ddof=1), count - 1
    else:
        variance, freedom = first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1), 2 * count - 2
    difference, error = (first - second).mean(axis=0), np.sqrt(variance / count)
    constant = error <= ROUNDING
    p_values = 2 * stdtr(freedom, -abs(difference) / np.where(constant, 1, error))
    return np.where(constant, difference <= ROUNDING, p_values)


def pavpu(labels: Numbers, samples: Numbers, threshold: Numbers = 0.05, paired: bool = False) -> float | Array:
    """Share of inputs that are accurate and certain, or inaccurate and uncertain.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities of at least two draws.
        threshold: an input is certain when the p-value of `top_two_p_values` is below this; an array gives an array.
        paired: which t-test, see `top_two_p_values`.
    """
    truth, array = classified(labels, samples)
    return pavpu_from(predicted(array) == truth, top_two_p_values(samples, paired), threshold)


def pavpu_from(accuracies: Numbers, p_values: Numbers, threshold: Numbers = 0.05) -> float | Array:
    """PAvPU of given p-values: the mean of the accuracy of certain inputs and 1 - accuracy of uncertain ones.

    Args:
        accuracies: (B,) in [0, 1]; fractions for inputs that are partly right, e.g. by their token F1.
        p_values: (B,) in [0, 1].
        threshold: an input is certain when its p-value is below this; an array gives an array.
    """
    p = _in_unit_interval(vector(p_values, "p_values"), "p_values")
    accurate = _in_unit_interval(vector(accuracies, "accuracies", len(p), "p_values"), "accuracies")
    limit = _in_unit_interval(numbers(threshold, "threshold"), "threshold")
    certain = p < limit[..., None]
    share = np.where(certain, accurate, 1 - accurate).mean(axis=-1)
    return float(share) if limit.ndim == 0 else np.asarray(share)


def _top_two(samples: Numbers) -> tuple[Array, Array]:
    array = draws(samples)
    if len(array) < 2 or array.ndim != 3 or array.shape[-1] < 2:
        raise ValueError(
            f"samples has the shape {array.shape}; a t-test needs (S, B, C) with at least two draws and two classes."
        )
    order = np.argsort(-array.mean(axis=0), axis=-1, kind="stable")  # (B, C)
    top = np.take_along_axis(array, order[None, :, :2], axis=-1)  # (S, B, 2)
    return top[..., 0], top[..., 1]


def _in_unit_interval(array: Array, name: str) -> Array:
    outside = array[(array < 0) | (array > 1)]
    if outside.size:
        raise ValueError(f"{name} has the value {outside.flat[0]:g}; expected numbers from 0 to 1.")
    return array
