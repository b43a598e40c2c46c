"""Evaluation of a trained model on the sets of a task: scores, prediction files and uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel

from .. import is_patched
from ..evaluation import tables
from ..evaluation.comparison import Predicted
from ..prediction import Predictor
from ..prediction.heads import Head
from ..tasks.base import Task
from ..tasks.classification import label_names
from ..tasks.writers import write_rows
from .evaluation import Evaluator
from .fits import with_guarantees
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

    @cached_property
    def predictors(self) -> dict[str, Predictor[Any]]:
        """Predictors of the model by the name of the method, the deterministic one first."""
        return make_predictors(self.evaluator.task, self.model, self.evaluator.tokenizer, self.evaluator.recipe)

    def fit(self, name: str, rows: Dataset, found: Uncertainty) -> Predictor[Any]:
        """Fit the predictors to a labelled set, and return the one of the model: by samples if it is Bayesian.

        Args:
            found: measures on the set.
        """
        known = [(range(len(rows)), self.evaluated[name].results), (found.measured, found.sampled)]
        for (method, predictor), (measured, results) in zip(self.predictors.items(), known, strict=False):
            assert results is not None
            own = with_guarantees(method, predictor, self.evaluator.task, rows.select(measured), results, found.table)
            self.predictors[method] = own
        chosen = copy([*self.predictors.values()][-1 if is_patched(self.model) else 0])
        chosen.calibration = replace(chosen.calibration, novelty=self.evaluator.novelty)
        fits = "; ".join(f"{fit} {value}" for fit, value in chosen.describe().items())
        self.log(f"\nFitted, and saved with the model: {fits or 'nothing, there are too few rows'}")
        return chosen

    def write(self, sets: Sets, found: Mapping[str, Uncertainty]) -> None:
        """Write `SET.jsonl` of every set: its rows with their predictions, their uncertainty and what was fitted.

        Rows are predicted by samples where the uncertainty was measured, and in sets without labels up to the largest
        number of rows of these; other rows by the deterministic pass of the scores.
        """
        task, limit = self.evaluator.task, max((len(own.measured) for own in found.values()), default=0)
        plain, *others = self.predictors.values()
        for name, rows in sets.items():
            inputs, deterministic = task.inputs(rows), list(self.evaluated[name].results)
            results = plain.head().fitted(inputs, deterministic)
            if others and limit:
                own = found[name] if name in found else self.sample(rows, limit, others[0])
                texts = [inputs[index] for index in own.measured]
                sampled = others[0].head().fitted(texts, list(own.sampled or ()))
                for index, result in zip(own.measured, sampled, strict=True):
                    same = deterministic[index]  # novelty is that of the deterministic model
                    novelty = {"novelty": same.novelty, "in_distribution": same.in_distribution}
                    results[index] = replace(result, **novelty)
            if self.folder is not None and self.evaluator.accelerator.is_main_process:
                write_rows(self.folder / f"{name}.jsonl", prediction_rows(task, rows, results, plain.head_class))

    def sample(self, rows: Dataset, limit: int, predictor: Predictor[Any]) -> Uncertainty:
        """Return the results of up to `limit` rows by samples, at temperature 1."""
        task = self.evaluator.task
        measured = measured_rows(task, rows, self.evaluator.recipe.replace(uncertainty_rows=limit))
        plain = predictor.with_settings(temperature=1.0)
        return Uncertainty([], measured=measured, sampled=plain(task.inputs(rows.select(measured))))

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
