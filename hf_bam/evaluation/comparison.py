"""Comparison of several methods on one labelled set."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from . import metrics, tables
from .labels import label_indices
from .outcomes import Array, Outcome, Statistics
from .outcomes import measure as measure
from .recommendation import Recommending, recommend
from .temperature import cross_fit

if TYPE_CHECKING:
    import pandas as pd

Columns = str | tuple[str, str] | None


class Classifier(Protocol):
    """Interface of the methods that `compare` takes: a [`Predictor`][hf_bam.prediction.Predictor] of classes."""

    head_name: str
    sampler: Any

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
        predictor: predictor of the results, which also predicts out-of-distribution and held-out inputs.
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
class Comparison(Recommending):
    """Predictions and measures of several methods on one labelled set.

    Attributes:
        outcomes: predictions by method.
        labels: (B,) indices of the true labels.
        texts: the inputs; the two parts of a pair are joined by " / ".
        label_names: names of the classes.
        table: one row per method: "method" and then named measures.
        ood: predictions for out-of-distribution inputs by method, if there were any.
        held_out: the same methods on the held-out rows, if there were any.
        alpha: share of the prediction sets that may miss the label.
    """

    outcomes: dict[str, Outcome]
    labels: Array
    texts: list[str]
    label_names: list[str]
    table: list[dict[str, float | str]]
    ood: dict[str, Outcome] | None = None
    held_out: Comparison | None = None
    alpha: float = 0.1

    def __str__(self) -> str:
        return f"{tables.as_text(self.table)}\n\n{textwrap.fill(self.recommendation, tables.WIDTH)}"

    def _repr_html_(self) -> str:
        """Return the table and the recommendation for a notebook."""
        return tables.as_html(self.table, self.recommendation)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of the measures, with a row for each method, which is the index."""
        import pandas as pd

        return pd.DataFrame(self.table).set_index("method")

    def _recommend(self) -> tuple[str, str]:
        return recommend(self)

    def predictions(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the prediction of every input by a method, by default the recommended one, with its uncertainty."""
        outcome, names = self.outcomes[method or self.recommended], self.label_names
        columns: dict[str, list[Any]] = {
            "text": self.texts,
            "label": [names[index] for index in self.labels],
            "prediction": [names[index] for index in outcome.mean.argmax(axis=-1)],
            "probability": outcome.mean.max(axis=-1).tolist(),
            "std": metrics.top_std(outcome.samples).tolist(),
            "entropy": outcome.entropy.tolist(),
            "aleatoric": metrics.expected_entropy(outcome.samples).tolist(),
            "epistemic": metrics.mutual_information(outcome.samples).tolist(),
        }
        for name in ("novelty", "novelty_percentile", "in_distribution"):
            if (values := getattr(outcome, name)) is not None:
                columns[name] = values.tolist()
        if outcome.sets is not None:
            columns["prediction_set"] = [[names[i] for i in own.nonzero()[0]] for own in outcome.sets]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def held_out_samples(self, method: str) -> tuple[Array, Array] | None:
        """Return labels and samples of the held-out rows."""
        return None if self.held_out is None else (self.held_out.labels, self.held_out.outcomes[method].samples)


def compare(
    predictors: Mapping[str, Classifier | Predicted],
    inputs: Any,
    labels: Iterable[int | str],
    columns: Columns = None,
    ood: Any = None,
    *,
    held_out: tuple[Any, Iterable[int | str]] | None = None,
    alpha: float = 0.1,
) -> Comparison:
    """Predict a labelled set with every predictor and measure all of them alike.

    Args:
        predictors: classifiers by the name that they get in the table, or results that they have given.
        inputs: as for a predictor.
        labels: the true labels, as names or indices.
        columns: of a dataset.
        ood: out-of-distribution inputs; uncertainty and novelty should be higher on them.
        held_out: further inputs and their labels, to which prediction sets are fitted. Without them the rows fall into
            two random halves, and the sets of one half are fitted to the other. A predictor after
            [`conformal`][hf_bam.prediction.Predictor.conformal] has its own.
        alpha: share of the prediction sets that may miss the label.
    """
    if not predictors:
        raise ValueError("predictors={} is empty; there is nothing to compare.")
    first = _predictor(next(iter(predictors.values())))
    texts = list(first.items(inputs, columns))
    names = first.label_names
    truth = label_indices(labels, names, len(texts))
    others = None
    if held_out is not None:
        others = compare({name: _predictor(method) for name, method in predictors.items()}, *held_out, columns)
    shown = [
        " / ".join(part for part in text if isinstance(part, str)) if isinstance(text, tuple) else str(text)
        for text in texts
    ]
    found = Comparison({}, truth, shown, names, [], None if ood is None else {}, others, alpha)
    for name, method in predictors.items():
        _add(found, name, method, texts, None if ood is None else list(first.items(ood, columns)))
    return found


def _add(found: Comparison, name: str, method: Classifier | Predicted, texts: list[Any], ood: Any) -> None:
    """Predict with a method and add its outcomes and its row."""
    known, outcome = _run(method, texts)
    if outcome.sets is None:
        outcome = cross_fit(found.labels, outcome, found.alpha, found.held_out_samples(name), temperature=1.0)
    row: dict[str, float | str] = {"method": name, **known.measures(found.labels)}
    if found.ood is not None:
        unknown, others = _run(_predictor(method), ood)
        found.ood[name] = others
        row["ood_auroc"] = metrics.ood_auroc(known.entropy, unknown.entropy)
        if outcome.novelty is not None and others.novelty is not None:
            row["novelty_auroc"] = metrics.ood_auroc(outcome.novelty, others.novelty)
    cost = {"passes": _passes(_predictor(method), outcome), "seconds": outcome.seconds}
    found.outcomes[name] = outcome
    found.table.append({**row, **outcome.set_measures(found.labels), **cost})


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
    predictor = _predictor(method)
    if predictor.head_name != "classification":
        raise ValueError(f"compare() takes classifiers; this predictor has head={predictor.head_name!r}.")
    results, seconds = predict(method, texts)
    return Statistics.of_results(results), Outcome.of_results(results, seconds, predictor.label_names)


def _passes(predictor: Classifier, outcome: Outcome) -> float:
    """Return the forward passes of an input: one for each sample, and one for the novelty of a stochastic method.

    A deterministic method takes its features from the pass that makes its prediction.
    """
    if predictor.sampler.one_pass:
        return 1.0
    return float(outcome.num_samples.mean()) + (outcome.novelty is not None and predictor.sampler.limit is None)
