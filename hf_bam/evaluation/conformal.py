"""Split conformal prediction: sets and intervals with guaranteed coverage, and abstention with a bounded error.

Thresholds are fitted on held-out examples that are exchangeable with later ones. On average over such held-out sets
the true label lies in the set, or the true number in the interval, with probability of at least ``1 - alpha``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]
LEVELS = 10
"""Thresholds among which an abstention threshold is chosen."""


def quantile(scores: Array, alpha: float) -> float:
    """Return the smallest threshold that a new score exceeds with probability of at most `alpha`.

    It is the ``ceil((n + 1) (1 - alpha))``-th smallest of n scores; infinite if there are too few of them.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r} is not valid; it must be a number between 0 and 1.")
    scores = np.sort(np.asarray(scores, dtype=float))
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    return float(scores[rank - 1]) if rank <= len(scores) else math.inf


def class_scores(probabilities: Array, uniform: Array) -> Array:
    """Return the conformal score of every class, (B, C): the probability of more probable classes, randomised.

    ``s_c = sum of p_j > p_c + u * p_c`` (Romano et al., 2020). The score of the true class is uniform if the
    probabilities are right.

    Args:
        probabilities: (B, C).
        uniform: (B,) uniform random numbers ``u``, one for each input.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    scores = np.cumsum(ranked, axis=1) - ranked + uniform[:, None] * ranked
    found = np.empty_like(scores)
    np.put_along_axis(found, order, scores, axis=1)
    return found


def fit_sets(labels: Array, probabilities: Array, uniform: Array, alpha: float) -> float:
    """Return the threshold of prediction sets from held-out examples."""
    return quantile(class_scores(probabilities, uniform)[np.arange(len(labels)), labels], alpha)


def prediction_sets(probabilities: Array, uniform: Array, threshold: float) -> Array:
    """Return the classes of each set, (B, C), boolean."""
    return class_scores(probabilities, uniform) <= threshold


@dataclass(frozen=True)
class IntervalFit:
    """Fit of conformal intervals ``mean +- threshold * (std + offset)``.

    Attributes:
        threshold: quantile of the normalised errors.
        offset: median standard deviation of the held-out examples; it keeps intervals of inputs on which the samples
            agree from vanishing.
    """

    threshold: float
    offset: float

    @classmethod
    def fit(cls, targets: Array, mean: Array, std: Array, alpha: float) -> IntervalFit:
        """Return the fit to held-out targets, (B,), and predictions, (B,) each."""
        offset = max(float(np.median(std)), 1e-12)
        return cls(quantile(np.abs(targets - mean) / (std + offset), alpha), offset)

    def intervals(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Return the lower and upper ends, (B,) each."""
        half = self.threshold * (std + self.offset)
        return mean - half, mean + half


def abstention_threshold(losses: Array, uncertainty: Array, risk: float, confidence: float = 0.9) -> float:
    """Return the largest uncertainty up to which inputs are answered, with a bound on the error among them.

    With probability `confidence` over the held-out examples, the error rate of answered inputs is at most `risk`. The
    bound is that of Clopper and Pearson at each of some thresholds, with a union bound over them (Geifman and
    El-Yaniv, 2017).

    Args:
        losses: (B,) 1 for a wrong prediction, 0 for a right one.
        uncertainty: (B,) of the same inputs.

    Returns:
        The threshold; minus infinity if no share of the inputs satisfies the bound.
    """
    for name, value in {"risk": risk, "confidence": confidence}.items():
        if not 0 < value < 1:
            raise ValueError(f"{name}={value!r} is not valid; it must be a number between 0 and 1.")
    order = np.argsort(uncertainty, kind="stable")
    wrong, score = np.cumsum(np.asarray(losses, dtype=float)[order] > 0), np.asarray(uncertainty)[order]
    ends = np.unique(np.linspace(1, len(order), min(LEVELS, len(order))).round().astype(int))
    # Ties are answered together.
    ends = np.unique([int(np.searchsorted(score, score[end - 1], side="right")) for end in ends])
    errors, answered = wrong[ends - 1], ends
    bound = stats.beta.ppf(1 - (1 - confidence) / len(ends), errors + 1, np.maximum(answered - errors, 1e-12))
    allowed = ends[np.where(errors >= answered, 1.0, bound) <= risk]
    return float(score[allowed[-1] - 1]) if len(allowed) else -math.inf
