"""Tasks to finetune on: GLUE, CLINC150, SQuAD, translation, text to text, sentiment,
questions about images and the user's own data.

A [`Task`][hf_bam.tasks.base.Task] loads rows, encodes them for training, declares how a predictor reads them, and
scores the predictions. A new task is a file in this package and a line in `TASKS`. Tasks import `prediction`,
`evaluation`, `patching` and `fields`; `training` uses them through the base class only. The citation graphs of
`planetoid` have no rows of text and are no `Task`; `training.graphs` uses them.
"""

from __future__ import annotations

from ..extras import check_extra

check_extra("train", "hf_bam.tasks")

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Task


def _make(module: str, kind: str, /, **options: Any) -> Task:
    """Import the module of a task when the task is built, and build it."""
    task: Task = getattr(import_module(f".{module}", __name__), kind)(**options)
    return task


TASKS: dict[str, Callable[..., Task]] = {
    **{
        name: partial(_make, "glue", "Glue", task=name)
        for name in ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
    },
    "autoencode": partial(_make, "autoencode", "Autoencode"),
    "clinc150": partial(_make, "clinc", "Clinc"),
    "custom": partial(_make, "custom", "Custom"),
    "sentiment": partial(_make, "sentiment", "Sentiment"),
    "squad": partial(_make, "squad", "Squad"),
    "text2text": partial(_make, "text2text", "TextToText"),
    "translation": partial(_make, "translation", "Translation"),
    "vqa": partial(_make, "vqa", "VisualQuestions"),
}
"""Tasks by name."""


def get_task(name: str, /, **options: Any) -> Task:
    """Return the task of this name; `options` are the fields of its class."""
    if name not in TASKS:
        raise ValueError(f"name={name!r} is not a task; choose one of {', '.join(TASKS)}.")
    return TASKS[name](**options)
