"""Tasks to finetune on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Task


def _make(module: str, kind: str, /, **options: Any) -> Task:
    """Imports a task when it is asked for, not before."""
    task: Task = getattr(import_module(f".{module}", __name__), kind)(**options)
    return task


TASKS: dict[str, Callable[..., Task]] = {
    **{
        name: partial(_make, "glue", "Glue", task=name)
        for name in ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
    },
    "custom": partial(_make, "custom", "Custom"),
    "sentiment": partial(_make, "sentiment", "Sentiment"),
    "squad": partial(_make, "squad", "Squad"),
    "translation": partial(_make, "translation", "Translation"),
}
"""Every task by its name. A new one is a file in this folder and a line here."""


def get_task(name: str, /, **options: Any) -> Task:
    """The task of this name; `options` are the fields of its class."""
    if name not in TASKS:
        raise ValueError(f"name={name!r} is not a task; choose one of {', '.join(TASKS)}.")
    return TASKS[name](**options)
