"""Temperature scaling of what was compared, without rows that are set aside for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from .. import metrics
from ..comparison import Comparison, Outcome, measure
from ..prediction import Classification, Predictions
from ..prediction.calibration import best_temperature
from ..prediction.results import Array, doubts

THRESHOLD = 0.05
"""Of the p-value below which an input is certain, as predictors have it."""


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
    others = dict(comparison.out_of_domain or {})
    for row in comparison.table:
        name, key = str(row["method"]), f"{row['method']} + temperature"
        if fitted is None:
            scaled = cross_fitted(outcomes[name], comparison.labels)
        else:
            scaled = replace(outcomes[name], samples=at(outcomes[name].samples, fitted[name]))
        outcomes[key] = scaled
        row = {**row, "method": key, **measure(as_results(scaled.samples), comparison.labels)}
        if name in others:
            whole = best_temperature(outcomes[name].samples, comparison.labels) if fitted is None else fitted[name]
            others[key] = replace(others[name], samples=at(others[name].samples, whole))
            row["ood_auroc"] = metrics.ood_auroc(*(_entropy(own[key]) for own in (outcomes, others)))
        table.append(row)
    return replace(comparison, outcomes=outcomes, table=table, out_of_domain=others or None)


def cross_fitted(outcome: Outcome, labels: Array) -> Outcome:
    """Every second row with the temperature that suits the others best, and the other way round."""
    scaled = np.empty_like(outcome.samples)
    even = np.arange(len(labels)) % 2 == 0
    for half in (even, ~even):
        scaled[:, half] = at(outcome.samples[:, half], best_temperature(outcome.samples[:, ~half], labels[~half]))
    return replace(outcome, samples=scaled)


def at(samples: Array, temperature: float) -> Array:
    """(S, B, C) probabilities whose logits are divided by a temperature."""
    return softmax(np.log(np.clip(samples, 1e-300, None)) / temperature, axis=-1)


def _entropy(outcome: Outcome) -> Array:
    return metrics.predictive_entropy(outcome.samples)


def as_results(samples: Array) -> Predictions[Classification]:
    """(S, B, C) probabilities as a predictor would return them."""
    own = doubts(samples, THRESHOLD)
    return Predictions(
        Classification.make(doubt, label="", truncated=False, samples=samples[:, i]) for i, doubt in enumerate(own)
    )
