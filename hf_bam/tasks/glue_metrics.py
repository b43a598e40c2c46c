"""Scores of GLUE by their official definitions, as fractions.

All functions take (N,) labels and (N,) predictions. `average` is the mean of the two metrics of a task.
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
    """Return Matthews' correlation; 0 when the labels or the predictions are all of one class."""
    return {"matthews": metrics.mcc(labels, predictions)}


def accuracy_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Return accuracy and the F1 of class 1, which is 0 when that class is never predicted correctly."""
    return _with_average(accuracy=metrics.accuracy(labels, predictions), f1=metrics.f1(labels, predictions))


def macro_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Return accuracy and the mean F1 over the classes that occur in the labels or the predictions."""
    return {
        "accuracy": metrics.accuracy(labels, predictions),
        "macro_f1": metrics.f1(labels, predictions, average="macro"),
    }


def correlations(labels: Values, predictions: Values) -> dict[str, float]:
    """Return Pearson's and Spearman's correlation.

    The correlation with a constant, which is not defined, is 0 here, so that a checkpoint with constant predictions
    can be compared with others.
    """
    return _with_average(pearson=metrics.pearson(labels, predictions), spearman=metrics.spearman(labels, predictions))


def _with_average(**scores: float) -> dict[str, float]:
    return {**scores, "average": float(np.mean(list(scores.values())))}
