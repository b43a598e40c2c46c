"""Temperature scaling of class probabilities and of compared methods (Guo et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from . import metrics
from .comparison import Array, Comparison, Outcome, measure

SUFFIX = " + temperature"
"""End of the name of a method with temperature scaling."""


def fit_temperature(labels: Array, samples: Array) -> float:
    """Return the temperature that minimises the negative log-likelihood of the mean over samples.

    Args:
        labels: (B,) indices.
        samples: (S, B, C) probabilities at temperature 1; their logarithms serve as logits.
    """
    logits = _logits(samples)

    def loss(log_temperature: float) -> float:
        log_p = log_softmax(logits / np.exp(log_temperature), axis=-1)[:, np.arange(len(labels)), labels]  # (S, B)
        return float(-logsumexp(log_p, axis=0).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded").x))


def apply_temperature(samples: Array, temperature: float) -> Array:
    """Return the probabilities (S, B, C) whose logits are divided by a temperature."""
    return softmax(_logits(samples) / temperature, axis=-1)


def with_temperatures(comparison: Comparison, fitted: Mapping[str, float] | None = None) -> Comparison:
    """Return the comparison with every method once more, with temperature scaling.

    Args:
        fitted: temperatures by method, fitted on other data. Without them the rows fall into two halves, and the
            temperature of one half is fitted on the other, so that nothing is measured on the rows of its fit; for
            out-of-distribution inputs it is fitted on all rows.
    """
    if len(comparison.labels) < 2:
        return comparison
    outcomes, table = dict(comparison.outcomes), list(comparison.table)
    ood = dict(comparison.ood or {})
    for row in comparison.table:
        name, key = str(row["method"]), f"{row['method']}{SUFFIX}"
        if fitted is None:
            outcomes[key] = cross_fit(comparison.labels, outcomes[name])
        else:
            outcomes[key] = _scaled(outcomes[name], fitted[name])
        row = {**row, "method": key, **measure(comparison.labels, outcomes[key].samples)}
        if name in ood:
            whole = fit_temperature(comparison.labels, outcomes[name].samples) if fitted is None else fitted[name]
            ood[key] = _scaled(ood[name], whole)
            row["ood_auroc"] = metrics.ood_auroc(_entropy(outcomes[key]), _entropy(ood[key]))
        table.append(row)
    return replace(comparison, outcomes=outcomes, table=table, ood=ood or None)


def cross_fit(labels: Array, outcome: Outcome) -> Outcome:
    """Return the outcome with the even rows at the temperature fitted on the odd ones, and the odd rows conversely."""
    scaled = np.empty_like(outcome.samples)
    even = np.arange(len(labels)) % 2 == 0
    for half in (even, ~even):
        temperature = fit_temperature(labels[~half], outcome.samples[:, ~half])
        scaled[:, half] = apply_temperature(outcome.samples[:, half], temperature)
    return replace(outcome, samples=scaled)


def _scaled(outcome: Outcome, temperature: float) -> Outcome:
    return replace(outcome, samples=apply_temperature(outcome.samples, temperature))


def _logits(samples: Array) -> Array:
    return np.log(np.clip(samples, 1e-300, None))


def _entropy(outcome: Outcome) -> Array:
    return metrics.predictive_entropy(outcome.samples)
