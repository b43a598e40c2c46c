"""Temperature scaling of draws, and of what was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from . import metrics
from .comparison import Array, Comparison, Outcome, measure


def with_temperatures(comparison: Comparison, fitted: Mapping[str, float] | None = None) -> Comparison:
    """Every method once more with temperature scaling.

    Args:
        fitted: the temperatures of the methods, found elsewhere. Without them the rows fall into two halves, and the
            temperature of one half is fitted on the other, so that nothing is measured on what it was fitted on; for
            inputs out of domain it is fitted on all rows.
    """
    if len(comparison.labels) < 2:
        return comparison
    outcomes, table = dict(comparison.outcomes), list(comparison.table)
    others = dict(comparison.ood or {})
    for row in comparison.table:
        name, key = str(row["method"]), f"{row['method']} + temperature"
        if fitted is None:
            scaled = cross_fitted(comparison.labels, outcomes[name])
        else:
            scaled = replace(outcomes[name], samples=at(outcomes[name].samples, fitted[name]))
        outcomes[key] = scaled
        row = {**row, "method": key, **measure(comparison.labels, scaled.samples)}
        if name in others:
            whole = best_temperature(comparison.labels, outcomes[name].samples) if fitted is None else fitted[name]
            others[key] = replace(others[name], samples=at(others[name].samples, whole))
            row["ood_auroc"] = metrics.ood_auroc(*(_entropy(own[key]) for own in (outcomes, others)))
        table.append(row)
    return replace(comparison, outcomes=outcomes, table=table, ood=others or None)


def cross_fitted(labels: Array, outcome: Outcome) -> Outcome:
    """Every second row with the temperature that suits the others best, and the other way round."""
    scaled = np.empty_like(outcome.samples)
    even = np.arange(len(labels)) % 2 == 0
    for half in (even, ~even):
        scaled[:, half] = at(outcome.samples[:, half], best_temperature(labels[~half], outcome.samples[:, ~half]))
    return replace(outcome, samples=scaled)


def best_temperature(labels: Array, samples: Array) -> float:
    """The temperature that minimises the negative log-likelihood of the mean over draws.

    Args:
        labels: (B,) indices.
        samples: (S, B, C) probabilities at temperature 1; their logarithms serve as logits.
    """
    logits = np.log(np.clip(samples, 1e-300, None))

    def loss(log_temperature: float) -> float:
        log_p = log_softmax(logits / np.exp(log_temperature), axis=-1)[:, np.arange(len(labels)), labels]  # (S, B)
        return float(-logsumexp(log_p, axis=0).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded").x))


def at(samples: Array, temperature: float) -> Array:
    """(S, B, C) probabilities whose logits are divided by a temperature."""
    return softmax(np.log(np.clip(samples, 1e-300, None)) / temperature, axis=-1)


def _entropy(outcome: Outcome) -> Array:
    return metrics.predictive_entropy(outcome.samples)
