"""Uncertainty of a trained model on the rows of a task: one deterministic pass against many samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import is_patched
from ..evaluation import tables
from ..evaluation.comparison import Comparison, Predicted, compare, predict
from ..evaluation.findings import Findings, Judged
from ..evaluation.temperature import with_temperatures
from ..prediction import Bam, Calibration, Dropout, Ensemble, Plain, Predictions, Predictor, Sampler
from ..prediction.calibration import NoveltyFit
from ..tasks.base import Task
from .evaluation import evenly, make_predictor
from .recipe import Recipe

Row = dict[str, float | str]
USUAL_DROPOUT = 0.1


@dataclass
class Uncertainty:
    """Measures of the uncertainty on one set.

    Attributes:
        table: a row for each method.
        comparison: predictions of the methods, for classification.
        findings: predictions of the methods, for other tasks.
        measured: indices of the rows that were predicted.
        sampled: results of these rows by samples; None without a method that samples.
    """

    table: list[Row]
    comparison: Comparison | None = None
    findings: Findings | None = None
    measured: Sequence[int] = ()
    sampled: Sequence[Any] | None = None

    def __str__(self) -> str:
        return tables.as_text(self.table) if self.comparison is None else str(self.comparison)

    @property
    def recommendation(self) -> str | None:
        """Method to use, and why."""
        found = self.comparison or self.findings
        return None if found is None else found.recommendation


def measure_uncertainty(
    task: Task,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Dataset,
    recipe: Recipe,
    *,
    deterministic: Predicted | None = None,
    members: Sequence[PreTrainedModel] = (),
    ood: Dataset | None = None,
    held_out: Dataset | None = None,
    novelty: NoveltyFit | None = None,
    alpha: float = 0.1,
) -> Uncertainty:
    """Measure the deterministic model and its samples on the same rows, or on a subsample of them.

    Args:
        deterministic: results of the deterministic model for all rows; without them it predicts again.
        members: models of an ensemble, which is measured too.
        ood: out-of-distribution rows, for classification.
        held_out: labelled rows to which temperatures and prediction sets are fitted, for classification; by default
            one half of the rows serves the other.
        novelty: fit of the novelty to the training set.
        alpha: share of the prediction sets that may miss the label.
    """
    measured = measured_rows(task, rows, recipe)
    predictors = make_predictors(task, model, tokenizer, recipe, members)
    for predictor in predictors.values():
        predictor.calibration = Calibration(novelty=novelty)
    rows = rows.select(measured)
    inputs, labels = task.inputs(rows), task.labels(rows)
    known = {} if deterministic is None else {deterministic_name(model): deterministic.select(measured)}
    methods = {name: known.get(name) or predicted(predictor, inputs) for name, predictor in predictors.items()}
    sampled: dict[str, Any] = {"measured": measured, "sampled": [*(own.results for own in methods.values()), None][1]}
    if labels is not None:
        others = None if ood is None else task.inputs(ood.select(measured_rows(task, ood, recipe)))
        fitted = None if held_out is None else labelled(task, held_out)
        comparison = with_temperatures(compare(methods, inputs, labels, ood=others, held_out=fitted, alpha=alpha))
        return Uncertainty(comparison.table, comparison, **sampled)
    results = {name: Predictions(own.results) for name, own in methods.items()}
    table = measures_of(task, rows, results)
    return Uncertainty(table, findings=findings_of(task, rows, results, table), **sampled)


def predicted(predictor: Predictor[Any], inputs: list[Any]) -> Predicted:
    """Return the results of a predictor and the seconds that they took."""
    results, seconds = predict(predictor, inputs)
    return Predicted(predictor, results, seconds)


def measures_of(task: Task, rows: Dataset, results: Mapping[str, Predictions[Any]]) -> list[Row]:
    """Return the table of methods, for tasks that are not classification."""
    return [{"method": name, **task.measures(rows, own)} for name, own in results.items()]


def findings_of(
    task: Task, rows: Dataset, results: Mapping[str, Predictions[Any]], table: Sequence[Row]
) -> Findings | None:
    """Return the predictions of all methods row by row, with the mean loss as the first measure of the table."""
    if not len(rows):
        return None
    judged = {}
    for name, own in results.items():
        predictions = [task.prediction(result) for result in own]
        judged[name] = Judged.of_results(own, predictions, task.losses(rows, predictions))
    texts = [text if isinstance(text, str) else " / ".join(text) for text in task.inputs(rows)]
    is_number = next(iter(judged.values())).intervals is not None
    targets = np.array(rows["label"], dtype=float) if is_number else None
    with_loss = [{**row, "loss": float(judged[str(row["method"])].losses.mean())} for row in table]
    return Findings(judged, texts, task.references(rows), with_loss, task.loss_name, targets)


def labelled(task: Task, rows: Dataset) -> tuple[list[Any], list[Any]]:
    """Return the inputs with a text, and their labels."""
    rows = rows.select(filled_rows(task, rows))
    return task.inputs(rows), task.labels(rows) or []


def filled_rows(task: Task, rows: Dataset) -> list[int]:
    """Return the indices of the rows without empty texts, which predictors reject."""
    return [index for index, parts in enumerate(task.texts(rows)) if all(part.strip() for part in parts)]


def measured_rows(task: Task, rows: Dataset, recipe: Recipe) -> list[int]:
    """Return the indices of `uncertainty_rows` rows, evenly spaced, without empty texts."""
    found = filled_rows(task, rows)
    if recipe.uncertainty_rows is None or recipe.uncertainty_rows >= len(found):
        return found
    return [found[index] for index in evenly(len(found), recipe.uncertainty_rows)]


def make_predictors(
    task: Task,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    members: Sequence[PreTrainedModel] = (),
) -> dict[str, Predictor]:
    """Return a deterministic predictor and one that samples, by attention or, for a plain model, by dropout.

    With `members` there is a third one, their ensemble.
    """
    samplers: dict[str, Sampler] = {deterministic_name(model): Plain(model)}
    if recipe.num_samples > 1:
        bayesian = is_patched(model)
        name = f"{'BAM' if bayesian else 'MC dropout'}, {recipe.num_samples} samples"
        samplers[name] = Bam(model) if bayesian else Dropout(model, rate=recipe.dropout or USUAL_DROPOUT)
    if members:
        samplers[f"ensemble of {len(members)} checkpoints"] = Ensemble(members)
    return {name: make_predictor(task, sampler, tokenizer, recipe) for name, sampler in samplers.items()}


def deterministic_name(model: PreTrainedModel) -> str:
    """Return the name of the deterministic method in tables."""
    return "mean attention" if is_patched(model) else "plain"
