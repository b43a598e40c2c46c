"""Comparison of several methods on one labelled set."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import metrics, tables
from .labels import label_indices
from .metrics.significance import THRESHOLD, pavpu_of_flags

Array = NDArray[Any]
Columns = str | tuple[str, str] | None


class Classifier(Protocol):
    """Interface of the methods that `compare` takes: a [`Predictor`][hf_bam.prediction.Predictor] of classes."""

    head_name: str

    @property
    def label_names(self) -> list[str]: ...

    def items(self, inputs: Any, columns: Columns = None) -> Iterable[Any]:
        """Return the inputs one by one."""

    def __call__(self, inputs: Any) -> Sequence[Any]:
        """Return a [`Classification`][hf_bam.prediction.Classification] of every input."""


@dataclass(frozen=True)
class Predicted:
    """Results that a predictor has given already; `compare` takes them in place of the predictor.

    Attributes:
        predictor: predictor of the results, which also predicts out-of-distribution inputs.
        results: one for each input.
        seconds: wall time.
    """

    predictor: Classifier
    results: Sequence[Any]
    seconds: float

    def select(self, indices: Sequence[int]) -> Predicted:
        """Return the results of some inputs, with their share of the time."""
        seconds = self.seconds * len(indices) / max(1, len(self.results))
        return replace(self, results=[self.results[index] for index in indices], seconds=seconds)


@dataclass(frozen=True)
class Outcome:
    """Predictions of one method for a set of inputs.

    Attributes:
        samples: (S, B, C) probabilities. Where adaptive sampling stopped early, the samples of an input are repeated.
        seconds: wall time.
        num_samples: (B,) number of samples of each input.
    """

    samples: Array
    seconds: float
    num_samples: Array


@dataclass(frozen=True)
class Comparison:
    """Predictions and measures of several methods on one labelled set.

    Attributes:
        outcomes: predictions by method.
        labels: (B,) indices of the true labels.
        texts: the inputs; the two parts of a pair are joined by " / ".
        label_names: names of the classes.
        table: one row per method: "method" and then named measures.
        ood: predictions for out-of-distribution inputs by method, if there were any.
    """

    outcomes: dict[str, Outcome]
    labels: Array
    texts: list[str]
    label_names: list[str]
    table: list[dict[str, float | str]]
    ood: dict[str, Outcome] | None = None

    def __str__(self) -> str:
        return tables.as_text(self.table)


@dataclass(frozen=True)
class Statistics:
    """Statistics over the samples of each input, of which the measures are functions.

    Attributes:
        mean: (B, C) mean probabilities.
        entropy: (B,) total uncertainty.
        epistemic: (B,) epistemic uncertainty.
        significant: (B,) booleans; None if an input has a single sample, which allows no test.
    """

    mean: Array
    entropy: Array
    epistemic: Array
    significant: Array | None

    @classmethod
    def of_samples(cls, samples: Array) -> Statistics:
        """Return the statistics of samples (S, B, C)."""
        return cls(
            mean=samples.mean(axis=0),
            entropy=metrics.predictive_entropy(samples),
            epistemic=metrics.mutual_information(samples),
            significant=metrics.top_two_p_values(samples) < THRESHOLD if len(samples) > 1 else None,
        )

    @classmethod
    def of_results(cls, results: Sequence[Any]) -> Statistics:
        """Return the statistics of a predictor's results, of which each may have another number of samples."""
        significant = np.array([result.significant for result in results])
        return cls(
            mean=np.stack([result.samples.mean(axis=0) for result in results]),
            entropy=np.array([result.entropy for result in results]),
            epistemic=np.array([result.epistemic for result in results]),
            significant=significant if min(result.num_samples for result in results) > 1 else None,
        )

    def measures(self, labels: Array) -> dict[str, float]:
        """Return all measures; NaN where one is not defined (only errors or none, a single sample)."""
        correct = self.mean.argmax(axis=-1) == labels
        mixed = 0 < correct.sum() < len(correct)
        return {
            "accuracy": metrics.accuracy(labels, self.mean),
            "nll": metrics.nll(labels, self.mean),
            "brier": metrics.brier(labels, self.mean),
            "ece": metrics.ece(labels, self.mean),
            "error_auroc": metrics.error_auroc(~correct, self.entropy) if mixed else math.nan,
            "error_aupr": metrics.error_aupr(~correct, self.entropy) if mixed else math.nan,
            "aurc": metrics.aurc(~correct, self.entropy),
            "pavpu": math.nan if self.significant is None else float(pavpu_of_flags(correct, self.significant)),
            "epistemic": float(self.epistemic.mean()),
        }


def measure(labels: Array, samples: Array) -> dict[str, float]:
    """Return all measures of one method; NaN where one is not defined (only errors or none, a single sample).

    Args:
        labels: (B,) indices of the true labels.
        samples: (S, B, C) probabilities.
    """
    return Statistics.of_samples(samples).measures(labels)


def compare(
    predictors: Mapping[str, Classifier | Predicted],
    inputs: Any,
    labels: Iterable[int | str],
    columns: Columns = None,
    ood: Any = None,
) -> Comparison:
    """Predict a labelled set with every predictor and measure all of them alike.

    Args:
        predictors: classifiers by the name that they get in the table, or results that they have given.
        inputs: as for a predictor.
        labels: the true labels, as names or indices.
        columns: of a dataset.
        ood: out-of-distribution inputs; uncertainty should be higher on them.
    """
    if not predictors:
        raise ValueError("predictors={} is empty; there is nothing to compare.")
    first = _predictor(next(iter(predictors.values())))
    texts = list(first.items(inputs, columns))
    names = first.label_names
    truth = label_indices(labels, names, len(texts))
    outcomes, table, others = {}, [], {}
    for name, method in predictors.items():
        predictor = _predictor(method)
        known, outcomes[name] = _run(method, texts)
        row: dict[str, float | str] = {"method": name, **known.measures(truth)}
        if ood is not None:
            unknown, others[name] = _run(predictor, list(predictor.items(ood, columns)))
            row["ood_auroc"] = metrics.ood_auroc(known.entropy, unknown.entropy)
        table.append({**row, "samples": float(outcomes[name].num_samples.mean()), "seconds": outcomes[name].seconds})
    shown = [text if isinstance(text, str) else " / ".join(text) for text in texts]
    return Comparison(outcomes, truth, shown, names, table, others or None)


def predict(method: Classifier | Predicted, inputs: list[Any]) -> tuple[Sequence[Any], float]:
    """Return the results of a method and the seconds that they took."""
    if isinstance(method, Predicted):
        if len(method.results) != len(inputs):
            raise ValueError(f"There are {len(method.results)} results for {len(inputs)} inputs.")
        return method.results, method.seconds
    start = time.perf_counter()
    results = method(inputs)
    return results, time.perf_counter() - start


def _predictor(method: Classifier | Predicted) -> Classifier:
    return method.predictor if isinstance(method, Predicted) else method


def _run(method: Classifier | Predicted, texts: list[Any]) -> tuple[Statistics, Outcome]:
    if _predictor(method).head_name != "classification":
        raise ValueError(f"compare() takes classifiers; this predictor has head={_predictor(method).head_name!r}.")
    results, seconds = predict(method, texts)
    most = max(len(result.samples) for result in results)
    # For the report only: where the number of samples does not divide the most, repeating them moves their mean a
    # little.
    samples = np.stack([np.resize(result.samples, (most, result.samples.shape[1])) for result in results], axis=1)
    outcome = Outcome(samples, seconds, np.array([result.num_samples for result in results]))
    return Statistics.of_results(results), outcome
