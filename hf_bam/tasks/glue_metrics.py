"""The metrics of GLUE, by their official definitions, also where a formula has nothing to divide by.

All take (N,) labels and (N,) predictions and give fractions. `average` is the mean of a task's two metrics.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

Values = Sequence[float] | NDArray[Any]


def accuracy(labels: Values, predictions: Values) -> dict[str, float]:
    return {"accuracy": float(accuracy_score(*_paired(labels, predictions)))}


def matthews(labels: Values, predictions: Values) -> dict[str, float]:
    """Matthews' correlation; 0 where the labels or the predictions are all of one class."""
    pair = _paired(labels, predictions)
    return {"matthews": 0.0 if _constant(*pair) else float(matthews_corrcoef(*pair))}


def accuracy_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Accuracy, and F1 of class 1: 0 where that class is never predicted rightly."""
    pair = _paired(labels, predictions)
    return _with_average(**accuracy(*pair), f1=float(f1_score(*pair, zero_division=0.0)))


def macro_f1(labels: Values, predictions: Values) -> dict[str, float]:
    """Accuracy, and the mean of the F1 of every class that occurs in the labels or the predictions."""
    pair = _paired(labels, predictions)
    return {**accuracy(*pair), "macro_f1": float(f1_score(*pair, average="macro", zero_division=0.0))}


def correlations(labels: Values, predictions: Values) -> dict[str, float]:
    """Pearson's and Spearman's correlation.

    A constant has no correlation with anything: scipy says NaN and warns. Here it is 0, the score of a model that
    tells nothing apart, so that such a checkpoint can be compared with others.
    """
    pair = _paired(labels, predictions)
    if _constant(*pair):
        return _with_average(pearson=0.0, spearman=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return _with_average(pearson=float(pearsonr(*pair).statistic), spearman=float(spearmanr(*pair).statistic))


def _with_average(**scores: float) -> dict[str, float]:
    return {**scores, "average": float(np.mean(list(scores.values())))}


def _constant(*arrays: NDArray[Any]) -> bool:
    return any(bool(np.all(array == array[0])) for array in arrays)


def _paired(labels: Values, predictions: Values) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(labels) != len(predictions):
        raise ValueError(f"There are {len(predictions)} predictions for {len(labels)} labels.")
    if len(labels) == 0:
        raise ValueError("There are no labels; a score needs at least one row.")
    return np.asarray(labels), np.asarray(predictions)
