"""Several methods on one labelled set, in one table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import metrics
from .prediction import Classification, Predictions, Predictor
from .prediction.inputs import label_indices
from .prediction.results import Array

Columns = str | tuple[str, str] | None


@dataclass(frozen=True)
class Outcome:
    """What one method said about a set of inputs.

    Attributes:
        samples: (S, B, C) probabilities. Where adaptive sampling stopped early an input's draws are repeated.
        seconds: wall time.
        draws: (B,) draws used for each input.
    """

    samples: Array
    seconds: float
    draws: Array


@dataclass(frozen=True)
class Comparison:
    """Several methods on one labelled set.

    Attributes:
        labels: (B,) indices of the true labels.
        table: one row per method: "method" and then named measures.
        out_of_domain: what the methods said of inputs that are not of the kind they know.
    """

    outcomes: dict[str, Outcome]
    labels: Array
    texts: list[str]
    label_names: list[str]
    table: list[dict[str, float | str]]
    out_of_domain: dict[str, Outcome] | None = None

    def __str__(self) -> str:
        header = list(self.table[0])
        rows = [header, *([_cell(row[name]) for name in header] for row in self.table)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "-" if math.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def compare(
    predictors: Mapping[str, Predictor],
    inputs: Any,
    labels: Iterable[int | str],
    columns: Columns = None,
    out_of_domain: Any = None,
) -> Comparison:
    """Predicts a labelled set with every predictor and measures all of them alike.

    Args:
        predictors: classifiers by the name that they get in the table.
        inputs: as for a predictor.
        labels: the true labels, as names or indices.
        columns: of a dataset.
        out_of_domain: inputs of another kind; doubt should be higher on them.
    """
    if not predictors:
        raise ValueError("predictors={} is empty; there is nothing to compare.")
    first = next(iter(predictors.values()))
    texts = list(first.items(inputs, columns))
    names = first.label_names
    truth = label_indices(labels, names, len(texts))
    outcomes, table, others = {}, [], {}
    for name, predictor in predictors.items():
        results, outcomes[name] = _run(predictor, texts)
        row: dict[str, float | str] = {"method": name, **measure(results, truth)}
        if out_of_domain is not None:
            strange, others[name] = _run(predictor, list(predictor.items(out_of_domain, columns)))
            row["ood_auroc"] = metrics.ood_auroc(_entropies(results), _entropies(strange))
        table.append({**row, "draws": float(outcomes[name].draws.mean()), "seconds": outcomes[name].seconds})
    shown = [text if isinstance(text, str) else " / ".join(text) for text in texts]
    return Comparison(outcomes, truth, shown, names, table, others or None)


def measure(results: Predictions[Classification], labels: Array) -> dict[str, float]:
    """All measures of one method; NaN where one is not defined (no errors at all, or a single draw)."""
    mean = np.stack([result.samples.mean(axis=0) for result in results])  # (B, C)
    right = mean.argmax(axis=-1) == labels
    doubt = _entropies(results)
    certain = np.array([result.certain for result in results])
    mixed = 0 < right.sum() < len(right)
    return {
        "accuracy": metrics.accuracy(mean, labels),
        "nll": metrics.nll(mean, labels),
        "brier": metrics.brier(mean, labels),
        "ece": metrics.ece(mean, labels),
        "error_auroc": metrics.error_auroc(doubt, ~right) if mixed else math.nan,
        "error_aupr": metrics.error_aupr(doubt, ~right) if mixed else math.nan,
        "aurc": metrics.aurc(doubt, ~right),
        "pavpu": float(np.mean(right == certain)) if results.draws.min() > 1 else math.nan,
        "epistemic": float(np.mean([result.epistemic for result in results])),
    }


def _entropies(results: Predictions[Classification]) -> Array:
    return np.array([result.entropy for result in results])


def _run(predictor: Predictor, texts: list[Any]) -> tuple[Predictions[Classification], Outcome]:
    if predictor.head_name != "classification":
        raise ValueError(f"compare() takes classifiers; this predictor has head={predictor.head_name!r}.")
    start = time.perf_counter()
    results = predictor(texts)
    seconds = time.perf_counter() - start
    most = max(len(result.samples) for result in results)
    # For the report only: where an input's draws do not divide the most, repeating them moves their mean a little.
    samples = np.stack([np.resize(result.samples, (most, result.samples.shape[1])) for result in results], axis=1)
    return results, Outcome(samples, seconds, results.draws)
