"""Classification scores of the predicted classes.

All take the labels, (B,), and the predictions: (S, B, C) class probabilities, (B, C), or (B,) classes.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from sklearn.metrics import f1_score, matthews_corrcoef

from ._arrays import Numbers, check_choice, labels_and_classes

Average = Literal["binary", "macro", "micro"]


def accuracy(labels: Numbers, predictions: Numbers) -> float:
    """Return the share of inputs whose predicted class, that of the highest mean probability, is the label.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities, (B, C), or (B,) class indices.
    """
    truth, classes, _ = labels_and_classes(labels, predictions)
    return float((classes == truth).mean())


def f1(labels: Numbers, predictions: Numbers, average: Average = "binary") -> float:
    """Return F1 = 2 TP / (2 TP + FP + FN) of the predicted classes; 0 where the denominator is 0.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities, (B, C), or (B,) class indices.
        average: `"binary"`: of class 1 of two; `"macro"`: mean over the classes that occur in the labels or the
            predictions; `"micro"`: of the counts of all classes together.
    """
    check_choice(average, "average", get_args(Average))
    truth, classes, number = labels_and_classes(labels, predictions)
    if average == "binary" and number != 2:
        raise ValueError(
            f"average='binary' needs two classes and predictions has {number}; choose 'macro' or 'micro'."
        )
    return float(f1_score(truth, classes, average=average, zero_division=0))


def mcc(labels: Numbers, predictions: Numbers) -> float:
    """Return Matthews' correlation of predicted classes and labels, in [-1, 1]; 0 when either is a single class.

    Args:
        labels: (B,) class indices.
        predictions: (S, B, C) class probabilities, (B, C), or (B,) class indices.
    """
    truth, classes, _ = labels_and_classes(labels, predictions)
    # A constant has no covariance with anything; scikit-learn returns the same with a warning.
    if np.ptp(classes) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(matthews_corrcoef(truth, classes))
