"""Whether doubt finds what deserves it: wrong predictions, and inputs from elsewhere.

A score is any uncertainty of an input, e.g. its mutual information: the higher, the more doubtful.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

from ._arrays import Array, Numbers, flags, vector


def error_auroc(errors: Numbers, scores: Numbers) -> float:
    """Probability that a wrong prediction has a higher score than a right one, ties counting one half.

    Args:
        errors: (B,) booleans, True where the prediction is wrong.
        scores: (B,) the higher, the more doubtful.
    """
    wrong, score = _scored(errors, scores)
    return float(roc_auc_score(wrong, score))


def error_aupr(errors: Numbers, scores: Numbers) -> float:
    """Average precision of finding wrong predictions by their score; chance level is the error rate.

    Args:
        errors: (B,) booleans, True where the prediction is wrong.
        scores: (B,) the higher, the more doubtful.
    """
    wrong, score = _scored(errors, scores)
    return float(average_precision_score(wrong, score))


def ood_auroc(in_scores: Numbers, out_scores: Numbers) -> float:
    """Probability that an out-of-distribution input has a higher score than one from the distribution.

    Args:
        in_scores: (N,) scores of inputs from the distribution.
        out_scores: (M,) scores of inputs from outside of it.
    """
    inside, outside = vector(in_scores, "in_scores"), vector(out_scores, "out_scores")
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))


def fpr95(in_scores: Numbers, out_scores: Numbers) -> float:
    """Share of in-distribution inputs that are flagged when 95 % of the out-of-distribution ones are.

    Flagged are scores at or above the highest threshold that reaches 95 %.

    Args:
        in_scores: (N,) scores of inputs from the distribution.
        out_scores: (M,) scores of inputs from outside of it.
    """
    inside, outside = vector(in_scores, "in_scores"), vector(out_scores, "out_scores")
    needed = -(-95 * len(outside) // 100)  # ceil(0.95 M), exact
    threshold = np.sort(outside)[-needed]
    return float((inside >= threshold).mean())


def _scored(errors: Numbers, scores: Numbers) -> tuple[npt.NDArray[np.bool_], Array]:
    score = vector(scores, "scores")
    wrong = flags(errors, "errors", len(score), "scores")
    if wrong.all() or not wrong.any():
        kind = "wrong" if wrong.all() else "right"
        raise ValueError(
            f"errors has only one class: all {len(wrong)} predictions are {kind}; expected some right and some wrong, "
            "because the score ranks one against the other."
        )
    return wrong, score
