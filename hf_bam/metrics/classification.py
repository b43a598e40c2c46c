"""How often the mean prediction is right."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from sklearn.metrics import f1_score, matthews_corrcoef

from ._arrays import Array, Labels, Numbers, choice, classified

Average = Literal["binary", "macro", "micro"]


def accuracy(samples: Numbers, labels: Numbers) -> float:
    """Share of inputs whose class of highest mean probability is the label.

    Args:
        samples: (S, B, C) class probabilities of S draws, or (B, C).
        labels: (B,) class indices.
    """
    array, truth = classified(samples, labels)
    return float((predicted(array) == truth).mean())


def f1(samples: Numbers, labels: Numbers, average: Average = "binary") -> float:
    """F1 = 2 TP / (2 TP + FP + FN) of the mean prediction; 0 where there is nothing to divide by.

    Args:
        samples: (S, B, C) class probabilities of S draws, or (B, C).
        labels: (B,) class indices.
        average: `"binary"`: of class 1 of two; `"macro"`: mean over the classes that are predicted or true somewhere;
            `"micro"`: of the counts of all classes together.
    """
    choice(average, "average", get_args(Average))
    array, truth = classified(samples, labels)
    if average == "binary" and array.shape[-1] != 2:
        raise ValueError(
            f"average='binary' needs two classes and samples has {array.shape[-1]}; choose 'macro' or 'micro'."
        )
    return float(f1_score(truth, predicted(array), average=average, zero_division=0))


def mcc(samples: Numbers, labels: Numbers) -> float:
    """Matthews correlation of the mean prediction with the labels, in [-1, 1]; 0 when either is a single class.

    Args:
        samples: (S, B, C) class probabilities of S draws, or (B, C).
        labels: (B,) class indices.
    """
    array, truth = classified(samples, labels)
    guess = predicted(array)
    # A constant has no covariance with anything; scikit-learn says the same with a warning.
    if np.ptp(guess) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(matthews_corrcoef(truth, guess))


def predicted(samples: Array) -> Labels:
    """(B,) the class of highest mean probability of (S, B, C); the first one of a tie."""
    return samples.mean(axis=0).argmax(axis=-1)
