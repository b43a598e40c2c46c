"""How far the doubt of a trained model can be trusted: one deterministic prediction against many draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import is_patched
from ..evaluation import metrics
from ..evaluation.comparison import Comparison, compare
from ..evaluation.temperature import with_temperatures
from ..prediction import Bam, Dropout, Plain, Predictions, Predictor, Regression, Sampler
from ..prediction.questions import Answer
from ..prediction.results import Array
from ..tasks.base import Task
from .evaluation import subsample
from .predictions import prediction_of, predictor_options
from .recipe import Recipe

Row = dict[str, float | str]
USUAL_DROPOUT = 0.1


@dataclass
class Uncertainty:
    """What was found on one set: a row for each method and, for classification, what the methods said."""

    table: list[Row]
    comparison: Comparison | None = None


def measure_uncertainty(
    task: Task, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, recipe: Recipe
) -> Uncertainty:
    """Predicts the rows once and with many draws, and measures both alike."""
    rows = subsample(with_text(task, rows), recipe.uncertainty_rows)
    predictors = make_predictors(task, model, tokenizer, recipe)
    labels = task.labels(rows)
    if labels is not None:
        comparison = with_temperatures(compare(predictors, task.inputs(rows), labels))
        return Uncertainty(comparison.table, comparison)
    inputs = task.inputs(rows)
    return Uncertainty(
        [{"method": name, **measure_results(task, rows, method(inputs))} for name, method in predictors.items()]
    )


def with_text(task: Task, rows: Dataset) -> Dataset:
    """The rows without empty texts, of which predictors have nothing to say."""
    texts = [(text,) if isinstance(text, str) else text for text in task.inputs(rows)]
    return rows.select([index for index, parts in enumerate(texts) if all(part.strip() for part in parts)])


def make_predictors(
    task: Task, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe
) -> dict[str, Predictor]:
    """A deterministic predictor and one that draws, by attention or, for a plain model, by dropout."""
    bayesian = is_patched(model)
    samplers: dict[str, Sampler] = {"mean attention" if bayesian else "plain": Plain(model)}
    if recipe.samples > 1:
        name = f"{'BAM' if bayesian else 'MC dropout'}, {recipe.samples} draws"
        samplers[name] = Bam(model) if bayesian else Dropout(model, rate=recipe.dropout or USUAL_DROPOUT)
    return {name: make_predictor(task, sampler, tokenizer, recipe) for name, sampler in samplers.items()}


def make_predictor(task: Task, sampler: Sampler, tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> Predictor:
    """Draws as often as the recipe says, and decodes as the task does."""
    return Predictor(sampler, tokenizer, recipe.samples, max_length=recipe.max_length, **predictor_options(task))


def measure_results(task: Task, rows: Dataset, results: Predictions[Any]) -> dict[str, float]:
    """Scores and doubt where predictions are numbers or texts."""
    return (regression if isinstance(results[0], Regression) else with_entropy)(task, rows, results)


def regression(task: Task, rows: Dataset, results: Predictions[Any]) -> dict[str, float]:
    """The task's scores and those of the spread: is it wide where the error is large?"""
    targets = np.array(rows["label"], dtype=float)
    values = np.array([result.value for result in results])
    drawn = len(results.samples) > 1
    spread = np.array([result.std for result in results])
    return {
        **task.score(rows, values.tolist()),
        "crps": metrics.crps(targets, results.samples),
        "coverage_90": metrics.interval_coverage(targets, results.samples) if drawn else np.nan,
        "error_spearman": metrics.spearman(abs(values - targets), spread) if drawn else np.nan,
        "draws": float(len(results.samples)),
    }


def with_entropy(task: Task, rows: Dataset, results: Predictions[Any]) -> dict[str, float]:
    """The task's scores, mean entropies, and how a row's doubt goes with what it loses of the score."""
    predictions = [prediction_of(result) for result in results]
    scores = [task.score(rows.select([i]), [guess])[task.metric] for i, guess in enumerate(predictions)]
    share = np.clip(np.array(scores) / 100, 0, 1)  # scores of texts are in percent
    lost = 1 - share if task.greater_is_better else share
    entropy = [result.entropy for result in results]
    return {
        **task.score(rows, predictions),
        "entropy": float(np.mean(entropy)),
        "epistemic": float(np.mean([result.epistemic for result in results])),
        "error_spearman": metrics.spearman(lost, entropy),
        "aurc": metrics.aurc(lost, entropy),
        **(answers(results, lost) if isinstance(results[0], Answer) else {}),
        "draws": float(results.num_samples.max()),
    }


def answers(results: Predictions[Answer], lost: Array) -> dict[str, float]:
    """Is an answer as often right, word for word, as its probability says, and does doubt find those that are not?

    An answer that is partly right counts as such for PAvPU.
    """
    wrong = lost > 0
    probability = np.array([result.probability for result in results])
    right_or_not = np.stack([probability, 1 - probability], axis=-1)  # (B, 2)
    found = {
        "ece": metrics.ece(wrong, right_or_not, classwise=True),
        "brier": metrics.brier(wrong, right_or_not),
        "error_auroc": np.nan,
        "pavpu": np.nan,
    }
    if 0 < wrong.sum() < len(wrong):
        found["error_auroc"] = metrics.error_auroc(wrong, [result.entropy for result in results])
    if results.num_samples.min() > 1:
        found["pavpu"] = float(metrics.pavpu_from(1 - lost, [result.p_value for result in results]))
    return found
