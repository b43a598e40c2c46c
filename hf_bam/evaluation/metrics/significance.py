"""Significance of predictions by a t-test between the two most probable classes, and PAvPU.

PAvPU, patch accuracy versus patch uncertainty (Mukhoti and Gal, 2018), with the test of Fan et al. (2020): an input is
significant when the test tells the mean probabilities of its two most probable classes apart.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from ._arrays import Array, Numbers, class_samples, labelled_samples, numbers, predicted_classes, vector

THRESHOLD = 0.05
"""p-value below which a prediction is significant."""
ROUNDING = 1e-12
"""Differences between probabilities below this are rounding."""


def top_two_p_values(samples: Numbers, paired: bool = False) -> Array:
    """Return the p-values (B,) of a two-sided t-test between the two classes with the highest mean probability.

    Without any variance p is 0 when the means differ and 1 when they are equal.

    Args:
        samples: (S, B, C) class probabilities of at least two samples.
        paired: False: two samples of equal variance, as `scipy.stats.ttest_ind`; True: the differences within each
            forward pass, as `scipy.stats.ttest_rel`.
    """
    first, second = _top_two(samples)  # (S, B) each
    count = len(first)
    # scipy's own tests warn when all samples of a class are equal, so only its t distribution is used.
    if paired:
        variance, freedom = (first - second).var(axis=0, ddof=1), count - 1
    else:
        variance, freedom = first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1), 2 * count - 2
    difference, error = (first - second).mean(axis=0), np.sqrt(variance / count)
    constant = error <= ROUNDING
    p_values = 2 * stdtr(freedom, -abs(difference) / np.where(constant, 1, error))
    return np.where(constant, difference <= ROUNDING, p_values)


def pavpu(labels: Numbers, samples: Numbers, threshold: Numbers = THRESHOLD, paired: bool = False) -> float | Array:
    """Return the share of inputs that are accurate and significant, or inaccurate and not significant.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities of at least two samples.
        threshold: an input is significant when the p-value of `top_two_p_values` is below this; an array gives an
            array.
        paired: which t-test, see `top_two_p_values`.
    """
    truth, array = labelled_samples(labels, samples)
    return pavpu_from(predicted_classes(array) == truth, top_two_p_values(samples, paired), threshold)


def pavpu_from(accuracies: Numbers, p_values: Numbers, threshold: Numbers = THRESHOLD) -> float | Array:
    """Return the PAvPU of given p-values: the mean of accuracy where significant and 1 - accuracy elsewhere.

    Args:
        accuracies: (B,) in [0, 1]; fractions for inputs that are partly correct, e.g. by their token F1.
        p_values: (B,) in [0, 1].
        threshold: an input is significant when its p-value is below this; an array gives an array.
    """
    p = _in_unit_interval(vector(p_values, "p_values"), "p_values")
    accurate = _in_unit_interval(vector(accuracies, "accuracies", len(p), "p_values"), "accuracies")
    limit = _in_unit_interval(numbers(threshold, "threshold"), "threshold")
    share = pavpu_of_flags(accurate, p < limit[..., None])
    return float(share) if limit.ndim == 0 else np.asarray(share)


def pavpu_of_flags(accuracies: Array, significant: np.ndarray) -> Array:
    """Return the PAvPU (...) of accuracies (B,) and booleans (..., B)."""
    return np.asarray(np.where(significant, accuracies, 1 - accuracies).mean(axis=-1))


def _top_two(samples: Numbers) -> tuple[Array, Array]:
    array = class_samples(samples)
    if len(array) < 2 or array.ndim != 3 or array.shape[-1] < 2:
        raise ValueError(
            f"samples has the shape {array.shape}; a t-test needs (S, B, C) with at least two samples and two classes."
        )
    order = np.argsort(-array.mean(axis=0), axis=-1, kind="stable")  # (B, C)
    top = np.take_along_axis(array, order[None, :, :2], axis=-1)  # (S, B, 2)
    return top[..., 0], top[..., 1]


def _in_unit_interval(array: Array, name: str) -> Array:
    outside = array[(array < 0) | (array > 1)]
    if outside.size:
        raise ValueError(f"{name} has the value {outside.flat[0]:g}; expected numbers from 0 to 1.")
    return array
