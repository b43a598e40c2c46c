"""Evaluation of a trained model on the sets of a task: scores, prediction files and uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel

from ..evaluation import tables
from ..evaluation.comparison import Predicted
from .evaluation import Evaluator
from .logger import Log
from .results import score_rows
from .uncertainty import Uncertainty, measure_uncertainty

Sets = Mapping[str, Dataset]


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
            if name in labelled:
                self.evaluated[name] = evaluated
                scores[name] = task.score(rows, predictions)
            if self.folder is not None and self.evaluator.accelerator.is_main_process:
                task.write(rows, predictions, name, self.folder)
        self.log(f"\n{tables.as_text(score_rows(scores))}")
        return scores

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
