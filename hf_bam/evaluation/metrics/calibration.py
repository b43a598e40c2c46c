"""Whether the mean probabilities can be taken at their word."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ._arrays import Array, Labels, Numbers, choice, classified, whole

Binning = Literal["width", "mass"]

SMALLEST = float(np.finfo(np.float32).tiny)
"""Least probability in a logarithm: where a float32 softmax underflows to an exact 0, the loss is 87 and finite."""


def nll(labels: Numbers, samples: Numbers) -> float:
    """Negative log-likelihood in nats of the mean probabilities, -mean_b log p_b(y_b).

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities of S draws, or (B, C).
    """
    truth, mean = _mean(labels, samples)
    likelihood = np.take_along_axis(mean, truth[:, None], axis=-1)
    return float(-np.log(likelihood.clip(min=SMALLEST)).mean())


def brier(labels: Numbers, samples: Numbers) -> float:
    """Brier score of the mean probabilities in [0, 2], mean_b sum_c (p_bc - [y_b = c])^2.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities of S draws, or (B, C).
    """
    truth, mean = _mean(labels, samples)
    return float(((mean - _one_hot(truth, mean)) ** 2).sum(axis=-1).mean())


def ece(
    labels: Numbers, samples: Numbers, bins: int = 15, binning: Binning = "width", classwise: bool = False
) -> float:
    """Expected calibration error: mean over inputs of the gap |accuracy - confidence| of their bin.

    Args:
        labels: (B,) class indices.
        samples: (S, B, C) class probabilities of S draws, or (B, C).
        bins: number of bins.
        binning: `"width"`: bins (i/bins, (i+1)/bins] as in Guo et al. (2017); `"mass"`: bins with equally many
            inputs, up to inputs of equal confidence, which stay together.
        classwise: False: of the highest probability; True: mean over the classes of the error of each probability.
    """
    gaps = _gaps(labels, samples, bins, binning, classwise)
    return float(np.mean([(abs(gap) * share).sum() for gap, share in gaps]))


def mce(
    labels: Numbers, samples: Numbers, bins: int = 15, binning: Binning = "width", classwise: bool = False
) -> float:
    """Maximum calibration error: the largest gap |accuracy - confidence| of a bin; arguments as for `ece`."""
    gaps = _gaps(labels, samples, bins, binning, classwise)
    return float(np.mean([abs(gap).max() for gap, _ in gaps]))


def _mean(labels: Numbers, samples: Numbers) -> tuple[Labels, Array]:
    truth, array = classified(labels, samples)
    return truth, array.mean(axis=0)


def _one_hot(truth: Labels, mean: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(truth[:, None] == np.arange(mean.shape[-1]))


def _gaps(labels: Numbers, samples: Numbers, bins: int, binning: str, classwise: bool) -> list[tuple[Array, Array]]:
    """For each binary problem, the gap and the share of inputs of every bin."""
    whole(bins, "bins")
    choice(binning, "binning", get_args(Binning))
    truth, mean = _mean(labels, samples)
    if classwise:
        columns = zip(mean.T, _one_hot(truth, mean).T, strict=True)
        return [_binned(confidence, hit, bins, binning) for confidence, hit in columns]
    return [_binned(mean.max(axis=-1), mean.argmax(axis=-1) == truth, bins, binning)]


def _binned(confidence: Array, hit: npt.NDArray[np.bool_], bins: int, binning: str) -> tuple[Array, Array]:
    index = np.searchsorted(_edges(confidence, bins, binning), confidence, side="left")
    count = np.bincount(index, minlength=bins)
    total = np.bincount(index, weights=hit - confidence, minlength=bins)
    return total / count.clip(min=1), count / len(confidence)


def _edges(confidence: Array, bins: int, binning: str) -> Array:
    """(bins - 1,) upper ends, inclusive, of all bins but the last."""
    if binning == "width":
        return np.linspace(0, 1, bins + 1)[1:-1]
    # Bin j ends with the input of rank ceil(B * j / bins); in whole numbers, because B * (j / bins) can round up.
    ranks = -(-len(confidence) * np.arange(1, bins) // bins)
    return np.sort(confidence)[ranks - 1]
