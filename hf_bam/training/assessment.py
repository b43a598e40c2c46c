"""Evaluation of a trained model on the sets of a task: scores, prediction files and uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel

from ..evaluation import tables
from ..evaluation.comparison import Predicted
from ..prediction.heads import Head
from ..tasks.base import Task
from ..tasks.classification import label_names
from ..tasks.writers import write_rows
from .evaluation import Evaluator
from .logger import Log
from .results import score_rows
from .uncertainty import Uncertainty, make_predictors, measure_uncertainty, measured_rows

Sets = Mapping[str, Dataset]
IDENTITY, TRUTH = ("idx", "id"), ("label", "target", "answers")
"""Columns of rows that prediction files take over."""


@dataclass
class Assessment:
    """Evaluation of a trained model, at the end of a run or later.

    Attributes:
        model: the model, in evaluation mode.
        folder: folder of the prediction files; None: they are not written.
        log: takes lines of text.
        evaluated: results of the deterministic model by set.
    """

    evaluator: Evaluator
    model: PreTrainedModel
    folder: Path | None
    log: Log
    evaluated: dict[str, Predicted] = field(default_factory=dict)

    def scores(self, labelled: Sets, unlabelled: Sets) -> dict[str, dict[str, float]]:
        """Return the scores of all labelled sets; write prediction files of all sets."""
        task, scores = self.evaluator.task, dict[str, dict[str, float]]()
        for name, rows in {**labelled, **unlabelled}.items():
            evaluated = self.evaluator.evaluate(self.model, rows)
            predictions = [task.prediction(result) for result in evaluated.results]
            self.evaluated[name] = evaluated
            if name in labelled:
                scores[name] = task.score(rows, predictions)
            if self.folder is not None and self.evaluator.accelerator.is_main_process:
                task.write(rows, predictions, name, self.folder)
        self.log(f"\n{tables.as_text(score_rows(scores))}")
        return scores

    def write(self, sets: Sets, found: Mapping[str, Uncertainty]) -> None:
        """Write `SET.jsonl` of every set: its rows with their predictions and uncertainty.

        Rows are predicted by samples where the uncertainty was measured, and in sets without labels up to the largest
        number of rows of these; other rows by the deterministic pass of the scores.
        """
        task, limit = self.evaluator.task, max((len(own.measured) for own in found.values()), default=0)
        for name, rows in sets.items():
            predictor: Any = self.evaluated[name].predictor
            results = list(self.evaluated[name].results)
            if name in found:
                measured, sampled = found[name].measured, found[name].sampled
            else:
                measured, sampled = self.sample(rows, limit)
            for index, result in zip(measured, sampled or (), strict=False):
                results[index] = result
            if self.folder is not None and self.evaluator.accelerator.is_main_process:
                write_rows(self.folder / f"{name}.jsonl", prediction_rows(task, rows, results, predictor.head_class))

    def sample(self, rows: Dataset, limit: int) -> tuple[list[int], Sequence[Any] | None]:
        """Return the results of up to `limit` rows by samples, and their indices; None without samples."""
        if not limit:
            return [], None
        own, recipe = self.evaluator, self.evaluator.recipe.replace(uncertainty_rows=limit)
        _, *others = make_predictors(own.task, self.model, own.tokenizer, recipe).values()
        if not others:
            return [], None
        measured = measured_rows(own.task, rows, recipe)
        return measured, others[0](own.task.inputs(rows.select(measured)))

    def uncertainty(self, labelled: Sets, ood: Sets, **options: Any) -> dict[str, Uncertainty]:
        """Measure the uncertainty on every labelled set; the deterministic results are those of the scores.

        Args:
            ood: out-of-distribution rows by the name of the labelled set.
            options: further arguments of `measure_uncertainty`.
        """
        found: dict[str, Uncertainty] = {}
        for name, rows in labelled.items():
            found[name] = measure_uncertainty(
                self.evaluator.task,
                self.model,
                self.evaluator.tokenizer,
                rows,
                self.evaluator.recipe,
                deterministic=self.evaluated[name],
                ood=ood.get(name),
                **options,
            )
            self.log(f"\nUncertainty on {name}\n{found[name]}")
        return found


def prediction_rows(task: Task, rows: Dataset, results: Sequence[Any], head: type[Head]) -> list[dict[str, Any]]:
    """Return the rows of a prediction file: what identifies them, texts, label or target, and columns of results."""
    columns = {name: list(rows[name]) for name in IDENTITY if name in rows.column_names}
    names = [*head.columns, head.optional]
    columns |= {names[i] or f"text {i}": list(own) for i, own in enumerate(zip(*task.texts(rows), strict=True))}
    columns |= {name: list(rows[name]) for name in TRUTH if name in rows.column_names}
    if "label" in columns and (classes := label_names(rows)):
        columns["label"] = [None if index is None else classes[index] for index in columns["label"]]
    values = zip(*columns.values(), strict=True)
    return [{**dict(zip(columns, own, strict=True)), **one.row()} for own, one in zip(values, results, strict=True)]
