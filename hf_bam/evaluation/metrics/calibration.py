"""Calibration metrics and proper scoring rules of the mean class probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ._arrays import Array, Labels, Numbers, check_choice, check_positive_integer, labelled_samples

Binning = Literal["width", "mass"]

SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest probability in a logarithm: where a float32 softmax underflows to an exact 0, the loss is 87 and finite."""


def nll(labels: Numbers, samples: Numbers) -> float:
    """Return the negative log-likelihood of the mean probabilities in nats, -mean_b log p_b(y_b).

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities, or (B, C).
    """
    truth, mean = _mean(labels, samples)
    likelihood = np.take_along_axis(mean, truth[:, None], axis=-1)
    return float(-np.log(likelihood.clip(min=SMALLEST)).mean())


def brier(labels: Numbers, samples: Numbers) -> float:
    """Return the Brier score of the mean probabilities in [0, 2], mean_b sum_c (p_bc - [y_b = c])^2.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities, or (B, C).
    """
    truth, mean = _mean(labels, samples)
    return float(((mean - _one_hot(truth, mean)) ** 2).sum(axis=-1).mean())


def ece(
    labels: Numbers, samples: Numbers, bins: int = 15, binning: Binning = "width", classwise: bool = False
) -> float:
    """Return the expected calibration error: the mean over inputs of |accuracy - confidence| of their bin.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities, or (B, C).
        bins: number of bins.
        binning: `"width"`: bins (i/bins, (i+1)/bins] as in Guo et al. (2017); `"mass"`: bins with equally many
            inputs, up to inputs of equal confidence, which stay together.
        classwise: False: of the highest probability; True: mean over the classes of the error of each probability.
    """
    problems = _binned(labels, samples, bins, binning, classwise)
    return float(np.mean([(abs(own.gap) * own.count).sum() / own.count.sum() for own in problems]))


def mce(
    labels: Numbers, samples: Numbers, bins: int = 15, binning: Binning = "width", classwise: bool = False
) -> float:
    """Return the maximum calibration error: the largest |accuracy - confidence| of a bin; arguments as for `ece`."""
    return float(np.mean([abs(own.gap).max() for own in _binned(labels, samples, bins, binning, classwise)]))


@dataclass(frozen=True)
class Bins:
    """Inputs of one binary problem, grouped by their confidence; all arrays are (bins,).

    Attributes:
        count: number of inputs.
        accuracy: share of them that are correct; 0 in an empty bin.
        gap: accuracy - mean confidence; 0 in an empty bin.
    """

    count: npt.NDArray[np.int64]
    accuracy: Array
    gap: Array


def confidence_bins(labels: Numbers, samples: Numbers, bins: int, binning: Binning = "width") -> Bins:
    """Return the bins of the highest mean probability, as `ece` has them."""
    return _binned(labels, samples, bins, binning, classwise=False)[0]


def _binned(labels: Numbers, samples: Numbers, bins: int, binning: str, classwise: bool) -> list[Bins]:
    """Return the bins of the highest probability or, classwise, those of the probability of each class."""
    check_positive_integer(bins, "bins")
    check_choice(binning, "binning", get_args(Binning))
    truth, mean = _mean(labels, samples)
    if classwise:
        columns = zip(mean.T, _one_hot(truth, mean).T, strict=True)
        return [_bins(confidence, correct, bins, binning) for confidence, correct in columns]
    return [_bins(mean.max(axis=-1), mean.argmax(axis=-1) == truth, bins, binning)]


def _bins(confidence: Array, correct: npt.NDArray[np.bool_], bins: int, binning: str) -> Bins:
    index = np.searchsorted(_edges(confidence, bins, binning), confidence, side="left")
    count = np.bincount(index, minlength=bins)
    accuracy, gap = (
        np.bincount(index, weights=weights, minlength=bins) / count.clip(min=1)
        for weights in (correct, correct - confidence)
    )
    return Bins(count, accuracy, gap)


def _edges(confidence: Array, bins: int, binning: str) -> Array:
    """Return the upper ends, inclusive, of all bins except the last, (bins - 1,)."""
    if binning == "width":
        return np.linspace(0, 1, bins + 1)[1:-1]
    # Bin j ends with the input of rank ceil(B * j / bins); in whole numbers, because B * (j / bins) can round up.
    ranks = -(-len(confidence) * np.arange(1, bins) // bins)
    return np.sort(confidence)[ranks - 1]


def _mean(labels: Numbers, samples: Numbers) -> tuple[Labels, Array]:
    truth, array = labelled_samples(labels, samples)
    return truth, array.mean(axis=0)


def _one_hot(truth: Labels, mean: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(truth[:, None] == np.arange(mean.shape[-1]))
