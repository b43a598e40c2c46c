"""Scores of GLUE by their official definitions, as fractions.

All take (N,) labels and (N,) predictions. `average` is the mean of a task's two metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluation import metrics

Values = Sequence[float] | NDArray[Any]


def only_accuracy(labels: Values, predictions: Values) -> dict[str, float]:
    return {"accuracy": metrics.accuracy(labels, predictions)}


def matthews(labels: Values, predictions: Values) -> dict[str, float]:
    """Matthews' correlation; 0 where the labels or the predictions are all of one class."""
    return {"matthews": metrics.mcc(labels, predictions)}


def accuracy_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Accuracy, and F1 of class 1: 0 where that class is never predicted rightly."""
    return _with_average(accuracy=metrics.accuracy(labels, predictions), f1=metrics.f1(labels, predictions))


def macro_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Accuracy, and the mean of the F1 of every class that occurs in the labels or the predictions."""
    return {
        "accuracy": metrics.accuracy(labels, predictions),
        "macro_f1": metrics.f1(labels, predictions, average="macro"),
    }


def correlations(labels: Values, predictions: Values) -> dict[str, float]:
    """Pearson's and Spearman's correlation.

    A constant has no correlation with anything. Here it is 0, the score of a model that tells nothing apart, so that
    such a checkpoint can be compared with others.
    """
    return _with_average(pearson=metrics.pearson(labels, predictions), spearman=metrics.spearman(labels, predictions))


def _with_average(**scores: float) -> dict[str, float]:
    return {**scores, "average": float(np.mean(list(scores.values())))}
