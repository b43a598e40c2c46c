"""What is gained by answering only where the model is certain."""

from __future__ import annotations

import numpy as np

from ._arrays import Array, Numbers, vector


def risk_coverage(losses: Numbers, scores: Numbers) -> tuple[Array, Array]:
    """Mean loss of the k most certain inputs against their share k / B, for k = 1 to B.

    Inputs of equal score enter together, each with the mean loss of all of them. This is the expected risk over
    their orderings, so the order of the inputs does not matter.

    Args:
        losses: (B,) what an answer costs, e.g. 1 where it is wrong.
        scores: (B,) the higher, the more doubtful.

    Returns:
        coverage: (B,) rising to 1.
        risk: (B,) the last one is the mean loss.
    """
    score = vector(scores, "scores")
    loss = vector(losses, "losses", len(score), "scores")
    _, group, size = np.unique(score, return_inverse=True, return_counts=True)
    mean = np.bincount(group, weights=loss) / size
    answered = np.arange(1, len(score) + 1)
    return answered / len(score), np.repeat(mean, size).cumsum() / answered


def aurc(losses: Numbers, scores: Numbers) -> float:
    """Area under the risk-coverage curve: the mean of the risk over the B coverages; lower is better.

    Args:
        losses: (B,) what an answer costs, e.g. 1 where it is wrong.
        scores: (B,) the higher, the more doubtful.
    """
    return float(risk_coverage(losses, scores)[1].mean())


def e_aurc(losses: Numbers, scores: Numbers) -> float:
    """Excess AURC: `aurc` minus the one of the best possible scores, the losses themselves; 0 is perfect.

    Args:
        losses: (B,) what an answer costs, e.g. 1 where it is wrong.
        scores: (B,) the higher, the more doubtful.
    """
    # Nothing is below the best ordering, but for rounding.
    return max(aurc(losses, scores) - aurc(losses, losses), 0.0)
