"""Uncertainty of a trained model on the rows of a task: one deterministic pass against many samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import is_patched
from ..evaluation.comparison import Comparison, Predicted, compare, predict
from ..evaluation.temperature import with_temperatures
from ..prediction import Bam, Dropout, Ensemble, Plain, Predictions, Predictor, Sampler
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
    """

    table: list[Row]
    comparison: Comparison | None = None


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
) -> Uncertainty:
    """Measure the deterministic model and its samples on the same rows, or on a subsample of them.

    Args:
        deterministic: results of the deterministic model for all rows; without them it predicts again.
        members: models of an ensemble, which is measured too.
        ood: out-of-distribution rows, for classification.
    """
    measured = measured_rows(task, rows, recipe)
    methods: dict[str, Predictor | Predicted] = {**make_predictors(task, model, tokenizer, recipe, members)}
    if deterministic is not None:
        methods[deterministic_name(model)] = deterministic.select(measured)
    rows = rows.select(measured)
    inputs, labels = task.inputs(rows), task.labels(rows)
    if labels is not None:
        others = None if ood is None else task.inputs(ood.select(measured_rows(task, ood, recipe)))
        comparison = with_temperatures(compare(methods, inputs, labels, ood=others))
        return Uncertainty(comparison.table, comparison)
    results = {name: Predictions(predict(method, inputs)[0]) for name, method in methods.items()}
    return Uncertainty([{"method": name, **task.measures(rows, own)} for name, own in results.items()])


def measured_rows(task: Task, rows: Dataset, recipe: Recipe) -> list[int]:
    """Return the indices of `uncertainty_rows` rows, evenly spaced, without empty texts, which predictors reject."""
    texts = [(text,) if isinstance(text, str) else text for text in task.inputs(rows)]
    found = [index for index, parts in enumerate(texts) if all(part.strip() for part in parts)]
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
