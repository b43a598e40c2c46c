"""Evaluation of a model on the rows of a task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accelerate import Accelerator
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..evaluation.comparison import Predicted
from ..prediction import Calibration, Plain, Predictor, Sampler
from ..prediction.calibration import NoveltyFit
from ..prediction.defaults import longest
from ..tasks.base import Task
from .recipe import Recipe


@dataclass(frozen=True)
class BestModelTracker:
    """Selection of the best weights by a score.

    Attributes:
        scores: function that evaluates the model, which is in evaluation mode; every process of a distributed run
            calls it.
        metric: name of the score that selects the best weights.
    """

    scores: Callable[[PreTrainedModel], dict[str, float]]
    metric: str
    greater_is_better: bool = True

    def is_better(self, scores: dict[str, float], best: dict[str, Any] | None) -> bool:
        score = scores[self.metric]
        if best is None or math.isnan(best["score"]):
            return True
        return score > best["score"] if self.greater_is_better else score < best["score"]


def make_predictor(
    task: Task, sampler: Sampler, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, **options: Any
) -> Predictor:
    """Return a predictor with the settings of the task and the recipe; `options` take precedence."""
    limit = min(task.input_length(recipe.max_length, tokenizer), longest(sampler.model, tokenizer))
    settings = {"num_samples": max(1, recipe.num_samples), "max_length": limit, **task.predictor_options, **options}
    return Predictor(sampler, tokenizer, **settings)


@dataclass
class Evaluator:
    """Evaluation of a task's model by one deterministic pass, with mean attention if the model is patched.

    In a distributed run every process predicts its part of the rows, and all processes get all predictions.
    """

    task: Task
    tokenizer: PreTrainedTokenizerBase
    recipe: Recipe
    accelerator: Accelerator
    novelty: NoveltyFit | None = None

    def predictor(self, model: PreTrainedModel) -> Predictor:
        """Return a deterministic predictor, which also predicts rows with an empty text."""
        predictor = make_predictor(
            self.task,
            Plain(model),
            self.tokenizer,
            self.recipe,
            num_samples=1,
            batch_size=self.recipe.per_device_eval_batch_size,
            progress=None if self.accelerator.is_main_process else False,
            allow_empty=True,
        )
        predictor.calibration = Calibration(novelty=self.novelty)
        return predictor

    def evaluate(self, model: PreTrainedModel, rows: Dataset) -> Predicted:
        """Return the results of all rows."""
        predictor, start = self.predictor(model), time.perf_counter()
        results = predictor(self.task.inputs(rows))
        return Predicted(predictor, results, time.perf_counter() - start)

    def predict(self, model: PreTrainedModel, rows: Dataset) -> list[Any]:
        """Return the prediction of every row, as the task scores it."""
        return [self.task.prediction(result) for result in self.evaluate(model, rows).results]

    def scores(self, model: PreTrainedModel, rows: Dataset) -> dict[str, float]:
        """Return the metrics of the task."""
        return self.task.score(rows, self.predict(model, rows))


def subsample(rows: Dataset, number: int | None) -> Dataset:
    """Return at most `number` rows, evenly spaced; all of them for None."""
    return rows if number is None or number >= len(rows) else rows.select(evenly(len(rows), number))


def holdout_split(rows: Dataset, number: int) -> tuple[Dataset, Dataset]:
    """Return the rows without `number` of them, and those, evenly spaced."""
    if number >= len(rows):
        raise ValueError(f"holdout={number} is not possible: there are {len(rows)} rows to train on.")
    taken = evenly(len(rows), number)
    return rows.select(sorted({*range(len(rows))} - {*taken})), rows.select(taken)


def evenly(rows: int, number: int) -> list[int]:
    """Return `number` indices below `rows`, evenly spaced."""
    return [index * rows // number for index in range(number)]
