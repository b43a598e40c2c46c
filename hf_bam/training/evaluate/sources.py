"""Rows of an evaluation, from files or from the sets of a task, with the classes of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel

from ...prediction.heads import labels_of
from ...tasks.base import Data, Task
from ...tasks.classification import SentenceTask, label_names
from ...tasks.custom import Custom
from ...tasks.tables import FORMATS
from ..evaluation import subsample
from ..settings import Job
from .settings import COLUMNS, Evaluation, is_file


@dataclass
class Rows:
    """Rows to evaluate on, to fit on and to recognise.

    Attributes:
        labelled: sets to evaluate on, by name.
        ood: out-of-distribution rows, by the name of the labelled set.
    """

    labelled: dict[str, Dataset]
    ood: dict[str, Dataset] = field(default_factory=dict)
    held_out: Dataset | None = None
    train: Dataset | None = None


def load(job: Job, task: Task, evaluation: Evaluation, model: PreTrainedModel) -> Rows:
    """Return all rows; raise `ValueError` for unknown sets, other classes than the model's, and malformed files."""
    data: Data | None = None
    has_sets = job.task_name != "custom" or job.data_dir is not None
    if evaluation.data is None or (has_sets and not all(map(is_file, evaluation.sources))):
        data = task.load(None if job.data_dir is None else Path(job.data_dir))
    limit = job.eval_limit or job.limit

    def rows(source: str | None, labelled: bool = True) -> Dataset | None:
        if source is None:
            return None
        if is_file(source):
            if not isinstance(task, SentenceTask):
                raise ValueError(
                    f"{source} is a file with texts and labels; {task.name} reads its files in --data_dir."
                )
            found = reader(job, model).read(Path(source), class_names(model), labelled)
        else:
            sets = {} if data is None else data.sets
            if source not in sets:
                raise ValueError(
                    f"{source!r} is neither a file with rows ({FORMATS}) nor a set of {task.name}; it has "
                    f"{', '.join(sets) or 'none without --data_dir'}."
                )
            found = sets[source]
        return subsample(aligned(task, found, model, source) if labelled else found, limit)

    if evaluation.data is not None:
        chosen = {Path(evaluation.data).stem: rows(evaluation.data)}
    else:
        chosen = {name: rows(name) for name in data.evaluation} if data else {}
    labelled = {name: own for name, own in chosen.items() if own is not None}
    ood = {name: subsample(own, limit) for name, own in data.ood.items()} if data else {}
    if (others := rows(evaluation.ood, labelled=False)) is not None:
        ood = dict.fromkeys(labelled, others)
    return Rows(labelled, ood, rows(evaluation.held_out), rows(evaluation.train))


def reader(job: Job, model: PreTrainedModel) -> Custom:
    """Return the task custom, which reads files; the model tells whether labels are numbers."""
    options: dict[str, Any] = dict(job.options) if job.task_name == "custom" else dict(COLUMNS)
    return Custom(**{**options, "regression": model.config.num_labels == 1})


def class_names(model: PreTrainedModel) -> list[str]:
    """Return the classes of a model; their indices if it has the names that transformers gives them."""
    names = labels_of(model)
    if len(names) == 1:
        return []
    return [str(index) for index in range(len(names))] if is_unnamed(names) else names


def is_unnamed(names: list[str]) -> bool:
    return names == [f"LABEL_{index}" for index in range(len(names))]


def aligned(task: Task, rows: Dataset, model: PreTrainedModel, source: str) -> Dataset:
    """Return rows whose labels are indices of the model's classes; rows of other tasks stay as they are."""
    labels = task.labels(rows)
    if labels is None:
        return rows
    if None in labels:
        raise ValueError(f"The rows of {source} have no labels; choose a labelled set or file.")
    names, own = label_names(rows), labels_of(model)
    if names == own or (is_unnamed(own) and len(names) == len(own)):
        return rows
    if not {name.lower() for name in names} <= {name.lower() for name in own}:
        raise ValueError(f"The model has the classes {', '.join(own)}; the data have {', '.join(names)}.")
    return rows.align_labels_with_mapping({name: index for index, name in enumerate(own)}, "label")
