"""Detection of errors and of out-of-distribution inputs by their uncertainty.

A score is any uncertainty of an input, e.g. its mutual information: the higher, the more uncertain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

from ._arrays import Array, Numbers, flags, vector


def error_auroc(errors: Numbers, scores: Numbers) -> float:
    """Return the probability that an incorrect prediction has a higher score than a correct one; ties are one half.

    Args:
        errors: (B,) booleans, True where the prediction is incorrect.
        scores: (B,) uncertainties.
    """
    incorrect, score = _errors_and_scores(errors, scores)
    return float(roc_auc_score(incorrect, score))


def error_aupr(errors: Numbers, scores: Numbers) -> float:
    """Return the average precision of detecting incorrect predictions by their score; chance is the error rate.

    Args:
        errors: (B,) booleans, True where the prediction is incorrect.
        scores: (B,) uncertainties.
    """
    incorrect, score = _errors_and_scores(errors, scores)
    return float(average_precision_score(incorrect, score))


def ood_auroc(in_scores: Numbers, out_scores: Numbers) -> float:
    """Return the probability that an out-of-distribution input has a higher score than an in-distribution one.

    Args:
        in_scores: (N,) scores of in-distribution inputs.
        out_scores: (M,) scores of out-of-distribution inputs.
    """
    inside, outside = vector(in_scores, "in_scores"), vector(out_scores, "out_scores")
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))


def fpr95(in_scores: Numbers, out_scores: Numbers) -> float:
    """Return the share of in-distribution inputs that are flagged when 95 % of the out-of-distribution ones are.

    Flagged are scores at or above the highest threshold that reaches 95 %.

    Args:
        in_scores: (N,) scores of in-distribution inputs.
        out_scores: (M,) scores of out-of-distribution inputs.
    """
    inside, outside = vector(in_scores, "in_scores"), vector(out_scores, "out_scores")
    needed = -(-95 * len(outside) // 100)  # ceil(0.95 M), exact
    threshold = np.sort(outside)[-needed]
    return float((inside >= threshold).mean())


def _errors_and_scores(errors: Numbers, scores: Numbers) -> tuple[npt.NDArray[np.bool_], Array]:
    score = vector(scores, "scores")
    incorrect = flags(errors, "errors", len(score), "scores")
    if incorrect.all() or not incorrect.any():
        kind = "incorrect" if incorrect.all() else "correct"
        raise ValueError(
            f"errors has only one class: all {len(incorrect)} predictions are {kind}; expected some correct and some "
            "incorrect, because the score ranks one against the other."
        )
    return incorrect, score
