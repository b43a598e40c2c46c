"""Selective prediction: the risk that remains when the most uncertain inputs are rejected."""

from __future__ import annotations

import numpy as np

from ._arrays import Array, Numbers, vector


def risk_coverage(losses: Numbers, scores: Numbers) -> tuple[Array, Array]:
    """Return the mean loss of the k least uncertain inputs against their share k / B, for k = 1 to B.

    Inputs of equal score enter together, each with the mean loss of all of them. This is the expected risk over
    their orderings, so the order of the inputs does not matter.

    Args:
        losses: (B,) loss of each prediction, e.g. 1 where it is incorrect.
        scores: (B,) uncertainties.

    Returns:
        coverage: (B,) rising to 1.
        risk: (B,) the last one is the mean loss.
    """
    score = vector(scores, "scores")
    loss = vector(losses, "losses", len(score), "scores")
    _, group, size = np.unique(score, return_inverse=True, return_counts=True)
    mean = np.bincount(group, weights=loss) / size
    accepted = np.arange(1, len(score) + 1)
    return accepted / len(score), np.repeat(mean, size).cumsum() / accepted


def aurc(losses: Numbers, scores: Numbers) -> float:
    """Return the area under the risk-coverage curve, the mean of the risk over the B coverages; lower is better.

    Args:
        losses: (B,) loss of each prediction, e.g. 1 where it is incorrect.
        scores: (B,) uncertainties.
    """
    return float(risk_coverage(losses, scores)[1].mean())


def e_aurc(losses: Numbers, scores: Numbers) -> float:
    """Return the excess AURC: `aurc` minus that of the best possible scores, the losses themselves; 0 is perfect.

    Args:
        losses: (B,) loss of each prediction, e.g. 1 where it is incorrect.
        scores: (B,) uncertainties.
    """
    # The best ordering has the lowest area; a negative difference is rounding.
    return max(aurc(losses, scores) - aurc(losses, losses), 0.0)
