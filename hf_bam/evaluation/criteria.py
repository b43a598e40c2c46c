"""Scores of held-out predictions after the fit of one parameter, and the choice of the best by one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .comparison import measure
from .metrics import gaussian_crps, gaussian_nll, pearson
from .temperature import apply_temperature, fit_temperature

Array = NDArray[Any]

CLASSES = {"nll": False, "ece": False, "brier": False, "error_auroc": True, "aurc": False, "accuracy": True}
"""Scores of class probabilities that can choose; True: higher is better."""
NUMBERS = {"nll": False, "crps": False, "pearson": True}
"""Scores of real-valued predictions that can choose; True: higher is better."""


def class_scores(labels: Array, samples: Array) -> dict[str, float]:
    """Return the temperature that minimises the negative log-likelihood, and the scores at this temperature.

    Args:
        labels: (B,) indices of the true labels.
        samples: (S, B, C) probabilities at temperature 1.
    """
    temperature = fit_temperature(labels, samples)
    scores = measure(labels, apply_temperature(samples, temperature))
    return {"temperature": temperature, **{name: scores[name] for name in CLASSES}}


def number_scores(targets: Array, samples: Array) -> dict[str, float]:
    """Return the constant `target_std` that minimises the negative log-likelihood, and the scores with it.

    The predictive distribution is `N(mean, std^2 + target_std^2)`, with mean and standard deviation of the samples:
    these contain the uncertainty of the model, and the constant the noise of the targets.

    Args:
        targets: (B,) true values.
        samples: (S, B).
    """
    mean = samples.mean(axis=0)
    std = samples.std(axis=0, ddof=1) if len(samples) > 1 else np.zeros(len(mean))
    error = max(float(np.sqrt(np.mean((targets - mean) ** 2))), 1e-12)

    def loss(log_std: float) -> float:
        return gaussian_nll(targets, mean, np.hypot(std, np.exp(log_std)))

    bounds = (np.log(1e-3 * error), np.log(10 * error))
    target_std = float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
    predicted = (targets, mean, np.hypot(std, target_std))
    return {
        "target_std": target_std,
        "nll": gaussian_nll(*predicted),
        "crps": gaussian_crps(*predicted),
        "pearson": pearson(targets, mean),
    }


def best_index(rows: Sequence[Mapping[str, Any]], criterion: str, higher: bool) -> int:
    """Return the index of the first row with the best value of a score; NaN is never the best.

    Raises:
        ValueError: if the score is NaN in all rows.
    """
    values = np.array([row[criterion] for row in rows], dtype=float)
    if np.isnan(values).all():
        raise ValueError(
            f"criterion={criterion!r} is not defined on these inputs; all predictions are right, or wrong."
        )
    return int(np.nanargmax(values) if higher else np.nanargmin(values))
