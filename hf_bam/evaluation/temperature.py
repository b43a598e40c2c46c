"""Fits of compared methods to held-out rows: temperature scaling (Guo et al., 2017) and prediction sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from . import metrics
from .conformal import fit_sets, prediction_sets
from .outcomes import Array, Outcome, measure

if TYPE_CHECKING:
    from .comparison import Comparison

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


@dataclass(frozen=True)
class Fold:
    """Rows to measure, and other rows to fit on.

    Attributes:
        rows: (B,) booleans, the rows to measure.
        labels: (N,) indices of the rows to fit on.
        samples: (S, N, C) probabilities of the rows to fit on.
        uniform: (N,) random numbers of their prediction sets.
    """

    rows: Array
    labels: Array
    samples: Array
    uniform: Array


def folds(labels: Array, samples: Array, uniform: Array, held_out: tuple[Array, Array] | None) -> Iterator[Fold]:
    """Yield all rows with the held-out labels and samples; or without them each of two random halves with the other.

    Nothing is measured on the rows of its fit. Data may be in any order, of their labels for instance.
    """
    if held_out is not None:
        random = np.random.default_rng(1).random(len(held_out[0]))
        yield Fold(np.ones(len(labels), dtype=bool), *held_out, random)
        return
    first = np.random.default_rng(1).permutation(len(labels)) % 2 == 0
    for half in (first, ~first):
        yield Fold(half, labels[~half], samples[:, ~half], uniform[~half])


def cross_fit(
    labels: Array,
    outcome: Outcome,
    alpha: float = 0.1,
    held_out: tuple[Array, Array] | None = None,
    temperature: float | None = None,
) -> Outcome:
    """Return the outcome with temperature scaling and prediction sets, fitted to held-out rows or to halves.

    Args:
        alpha: share of the prediction sets that may miss the label.
        held_out: labels (N,) and samples (S, N, C) of other rows.
        temperature: the temperature, if it is known; 1 for prediction sets alone.
    """
    uniform = np.random.default_rng(0).random(len(labels))
    samples, sets, known = outcome.samples.copy(), np.zeros(outcome.samples.shape[1:], dtype=bool), True
    for fold in folds(labels, outcome.samples, uniform, held_out):
        own = fit_temperature(fold.labels, fold.samples) if temperature is None else temperature
        fitted = fold.samples
        if own != 1:
            samples[:, fold.rows] = apply_temperature(outcome.samples[:, fold.rows], own)
            fitted = apply_temperature(fold.samples, own)
        threshold = fit_sets(fold.labels, fitted.mean(axis=0), fold.uniform, alpha)
        known = known and math.isfinite(threshold)
        sets[fold.rows] = prediction_sets(samples[:, fold.rows].mean(axis=0), uniform[fold.rows], threshold)
    return replace(outcome, samples=samples, sets=sets if known else None)


def with_temperatures(comparison: Comparison, fitted: Mapping[str, float] | None = None) -> Comparison:
    """Return the comparison with every method once more, with temperature scaling.

    Args:
        fitted: temperatures by method, fitted on other data. Without them they are fitted on the held-out rows of the
            comparison. If it has none, the rows fall into two halves, and the temperature of one half is fitted on the
            other, so that nothing is measured on the rows of its fit; for out-of-distribution inputs it is fitted on
            all rows.
    """
    if len(comparison.labels) < 2:
        return comparison
    outcomes, table = dict(comparison.outcomes), list(comparison.table)
    ood, labels = dict(comparison.ood or {}), comparison.labels
    for row in comparison.table:
        name, key = str(row["method"]), f"{row['method']}{SUFFIX}"
        held_out = comparison.held_out_samples(name)
        known = None if fitted is None else fitted[name]
        if known is None and held_out is not None:
            known = fit_temperature(*held_out)
        outcomes[key] = cross_fit(labels, outcomes[name], comparison.alpha, held_out, known)
        row = {**row, "method": key, **measure(labels, outcomes[key].samples), **outcomes[key].set_measures(labels)}
        if name in ood:
            whole = fit_temperature(labels, outcomes[name].samples) if known is None else known
            ood[key] = replace(ood[name], samples=apply_temperature(ood[name].samples, whole))
            row["ood_auroc"] = metrics.ood_auroc(outcomes[key].entropy, ood[key].entropy)
        table.append(row)
    return replace(comparison, outcomes=outcomes, table=table, ood=ood or None)


def _logits(samples: Array) -> Array:
    return np.log(np.clip(samples, 1e-300, None))
