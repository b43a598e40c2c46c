"""How often the mean prediction, or a given one, is right.

All take the labels, (B,), and the predictions: (S, B, C) class probabilities of S draws, (B, C), or (B,) classes.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from sklearn.metrics import f1_score, matthews_corrcoef

from ._arrays import Numbers, answered, choice

Average = Literal["binary", "macro", "micro"]


def accuracy(labels: Numbers, predictions: Numbers) -> float:
    """Share of inputs whose predicted class, that of the highest mean probability, is the label.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities of S draws, (B, C), or (B,) class indices.
    """
    truth, guess, _ = answered(labels, predictions)
    return float((guess == truth).mean())


def f1(labels: Numbers, predictions: Numbers, average: Average = "binary") -> float:
    """F1 = 2 TP / (2 TP + FP + FN) of the predicted classes; 0 where there is nothing to divide by.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities of S draws, (B, C), or (B,) class indices.
        average: `"binary"`: of class 1 of two; `"macro"`: mean over the classes that are predicted or true somewhere;
            `"micro"`: of the counts of all classes together.
    """
    choice(average, "average", get_args(Average))
    truth, guess, classes = answered(labels, predictions)
    if average == "binary" and classes != 2:
        raise ValueError(
            f"average='binary' needs two classes and predictions has {classes}; choose 'macro' or 'micro'."
        )
    return float(f1_score(truth, guess, average=average, zero_division=0))


def mcc(labels: Numbers, predictions: Numbers) -> float:
    """Matthews correlation of the predicted classes with the labels, in [-1, 1]; 0 when either is a single class.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities of S draws, (B, C), or (B,) class indices.
    """
    truth, guess, _ = answered(labels, predictions)
    # A constant has no covariance with anything; scikit-learn says the same with a warning.
    if np.ptp(guess) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(matthews_corrcoef(truth, guess))
