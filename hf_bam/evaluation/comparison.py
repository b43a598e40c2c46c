"""Several methods on one labelled set, in one table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import metrics, tables
from .labels import label_indices

Array = NDArray[Any]
Columns = str | tuple[str, str] | None
THRESHOLD = 0.05
"""p-value of the t-test between the two likeliest classes below which an input is certain, as predictors have it."""


class Classifier(Protocol):
    """What is compared: a [`Predictor`][hf_bam.prediction.Predictor] of classes."""

    head_name: str

    @property
    def label_names(self) -> list[str]: ...

    def items(self, inputs: Any, columns: Columns = None) -> Iterable[Any]:
        """The inputs one by one."""

    def __call__(self, inputs: Any) -> Sequence[Any]:
        """A [`Classification`][hf_bam.prediction.Classification] of every input."""


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
    num_samples: Array


@dataclass(frozen=True)
class Comparison:
    """Several methods on one labelled set.

    Attributes:
        labels: (B,) indices of the true labels.
        table: one row per method: "method" and then named measures.
        ood: what the methods said of inputs that are not of the kind they know.
    """

    outcomes: dict[str, Outcome]
    labels: Array
    texts: list[str]
    label_names: list[str]
    table: list[dict[str, float | str]]
    ood: dict[str, Outcome] | None = None

    def __str__(self) -> str:
        return tables.as_text(self.table)


def compare(
    predictors: Mapping[str, Classifier],
    inputs: Any,
    labels: Iterable[int | str],
    columns: Columns = None,
    ood: Any = None,
) -> Comparison:
    """Predicts a labelled set with every predictor and measures all of them alike.

    Args:
        predictors: classifiers by the name that they get in the table.
        inputs: as for a predictor.
        labels: the true labels, as names or indices.
        columns: of a dataset.
        ood: inputs of another kind; doubt should be higher on them.
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
        row: dict[str, float | str] = {"method": name, **_measure_results(truth, results)}
        if ood is not None:
            strange, others[name] = _run(predictor, list(predictor.items(ood, columns)))
            row["ood_auroc"] = metrics.ood_auroc(_entropies(results), _entropies(strange))
        table.append({**row, "draws": float(outcomes[name].num_samples.mean()), "seconds": outcomes[name].seconds})
    shown = [text if isinstance(text, str) else " / ".join(text) for text in texts]
    return Comparison(outcomes, truth, shown, names, table, others or None)


def measure(labels: Array, samples: Array) -> dict[str, float]:
    """All measures of one method; NaN where one is not defined (no errors at all, or a single draw).

    Args:
        labels: (B,) indices of the true labels.
        samples: (S, B, C) probabilities.
    """
    certain = metrics.top_two_p_values(samples) < THRESHOLD if len(samples) > 1 else None
    return _measure(
        labels, samples.mean(axis=0), metrics.predictive_entropy(samples), metrics.mutual_information(samples), certain
    )


def _measure_results(labels: Array, results: Sequence[Any]) -> dict[str, float]:
    """The same of a predictor's results, each of which may have draws of its own number."""
    certain = np.array([result.significant for result in results])
    return _measure(
        labels,
        np.stack([result.samples.mean(axis=0) for result in results]),
        _entropies(results),
        np.array([result.epistemic for result in results]),
        certain if min(result.num_samples for result in results) > 1 else None,
    )


def _measure(labels: Array, mean: Array, entropy: Array, epistemic: Array, certain: Array | None) -> dict[str, float]:
    """All measures of (B, C) mean probabilities and (B,) uncertainties; certain: None for a single draw."""
    right = mean.argmax(axis=-1) == labels
    mixed = 0 < right.sum() < len(right)
    return {
        "accuracy": metrics.accuracy(labels, mean),
        "nll": metrics.nll(labels, mean),
        "brier": metrics.brier(labels, mean),
        "ece": metrics.ece(labels, mean),
        "error_auroc": metrics.error_auroc(~right, entropy) if mixed else math.nan,
        "error_aupr": metrics.error_aupr(~right, entropy) if mixed else math.nan,
        "aurc": metrics.aurc(~right, entropy),
        "pavpu": math.nan if certain is None else float(np.mean(right == certain)),
        "epistemic": float(epistemic.mean()),
    }


def _entropies(results: Sequence[Any]) -> Array:
    return np.array([result.entropy for result in results])


def _run(predictor: Classifier, texts: list[Any]) -> tuple[Sequence[Any], Outcome]:
    if predictor.head_name != "classification":
        raise ValueError(f"compare() takes classifiers; this predictor has head={predictor.head_name!r}.")
    start = time.perf_counter()
    results = predictor(texts)
    seconds = time.perf_counter() - start
    most = max(len(result.samples) for result in results)
    # For the report only: where an input's draws do not divide the most, repeating them moves their mean a little.
    samples = np.stack([np.resize(result.samples, (most, result.samples.shape[1])) for result in results], axis=1)
    return results, Outcome(samples, seconds, np.array([result.num_samples for result in results]))
