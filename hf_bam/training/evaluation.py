"""What a model says of a set of rows, and its scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device
from datasets import Dataset
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..tasks.base import Outputs, Task
from .batching import feature_lengths, sorted_batches
from .recipe import Recipe


@dataclass(frozen=True)
class BestModelTracker:
    """Says how good a model is by now.

    Attributes:
        scores: of the model, which comes in evaluation mode; in a distributed run every process asks.
        metric: which of the scores chooses the best weights.
    """

    scores: Callable[[PreTrainedModel], dict[str, float]]
    metric: str
    greater_is_better: bool = True

    def is_better(self, scores: dict[str, float], best: dict[str, Any] | None) -> bool:
        score = scores[self.metric]
        if best is None or math.isnan(best["score"]):
            return True
        return score > best["score"] if self.greater_is_better else score < best["score"]


@dataclass
class Evaluator:
    """Evaluates a task's model by mean attention, in one process or several: each takes its share of the batches."""

    task: Task
    tokenizer: PreTrainedTokenizerBase
    recipe: Recipe
    accelerator: Accelerator

    def encode(self, rows: Dataset) -> Dataset:
        return self.task.encode(rows, self.tokenizer, self.recipe.max_length, training=False)

    def outputs(self, model: PreTrainedModel, features: Dataset) -> Outputs:
        """What the model says of every feature, in their order; all processes get all of it."""
        batches = sorted_batches(feature_lengths(features), self.recipe.per_device_eval_batch_size)
        own = batches[self.accelerator.process_index :: self.accelerator.num_processes]
        loader = DataLoader(features, batch_sampler=own, collate_fn=self.task.collator(self.tokenizer, model))
        hidden = None if self.accelerator.is_main_process else True
        found: list[tuple[int, dict[str, Any]]] = []
        model.eval()
        with torch.no_grad():
            for indices, batch in zip(own, tqdm(loader, "evaluation", leave=False, disable=hidden), strict=True):
                output = self.task.forward(model, send_to_device(batch, self.accelerator.device))
                arrays = {name: tensor.double().cpu().numpy() for name, tensor in output.items()}
                found += [(index, {name: rows[i] for name, rows in arrays.items()}) for i, index in enumerate(indices)]
        return [output for _, output in sorted(gather_object(found), key=lambda pair: pair[0])]

    def predict(self, model: PreTrainedModel, rows: Dataset, features: Dataset | None = None) -> list[Any]:
        """One prediction for each row."""
        features = self.encode(rows) if features is None else features
        return self.task.decode(rows, features, self.outputs(model, features), self.tokenizer)

    def scores(self, model: PreTrainedModel, rows: Dataset, features: Dataset | None = None) -> dict[str, float]:
        """The task's metrics."""
        return self.task.score(rows, self.predict(model, rows, features))


def subsample(rows: Dataset, number: int | None) -> Dataset:
    """At most so many rows, evenly from the beginning to the end; all of them for None."""
    return rows if number is None or number >= len(rows) else rows.select(evenly(len(rows), number))


def holdout_split(rows: Dataset, number: int) -> tuple[Dataset, Dataset]:
    """The rows without so many of them, and those, evenly from the beginning to the end."""
    if number >= len(rows):
        raise ValueError(f"holdout={number} is not possible: there are {len(rows)} rows to train on.")
    taken = evenly(len(rows), number)
    return rows.select(sorted({*range(len(rows))} - {*taken})), rows.select(taken)


def evenly(rows: int, number: int) -> list[int]:
    return [index * rows // number for index in range(number)]
