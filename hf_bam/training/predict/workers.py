"""Processes that predict parts of the rows, each with a copy of the model."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

import torch
import transformers

from ...prediction import Calibration, Predictor, Settings
from .predictors import load
from .settings import Prediction

Part = TypeVar("Part")
Done = TypeVar("Done")
Row = dict[str, Any]
_predictors: dict[str, Predictor[Any]] = {}
"""Predictor of this process, under "own"."""


def predict_items(predictor: Predictor[Any], items: list[Any], score: bool) -> list[Row]:
    """Return the columns of the results of some inputs, or of their targets."""
    if not items:
        return []
    if score:
        sources, targets = zip(*items, strict=True)
        return [result.row() for result in predictor.score_targets(list(sources), list(targets))]
    return [result.row() for result in predictor(items)]


def executor(settings: Prediction, run: dict[str, Any], predictor: Predictor[Any]) -> ProcessPoolExecutor:
    """Return processes with predictors like this one."""
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    ranks = context.Queue()
    for rank in range(settings.num_processes):
        ranks.put(rank)
    threads = max(1, (os.cpu_count() or 1) // settings.num_processes)
    state = (settings, run, predictor.settings, predictor.calibration, ranks, threads)
    return ProcessPoolExecutor(settings.num_processes, context, _start, state)


def _start(
    settings: Prediction, run: dict[str, Any], own: Settings, calibration: Calibration, ranks: Any, threads: int
) -> None:
    """Load the predictor of this process."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    predictor = load(settings, run, ranks.get())
    predictor.settings, predictor.calibration = own, calibration
    _predictors["own"] = predictor


def predict_part(items: list[Any], score: bool) -> list[Row]:
    """Return the columns of the results of some inputs, by the predictor of this process."""
    return predict_items(_predictors["own"], items, score)


def in_order(
    pool: Executor, function: Callable[..., Done], parts: Iterable[tuple[Part, tuple[Any, ...]]], ahead: int
) -> Iterator[tuple[Part, Done]]:
    """Yield every part with the result of a function of its arguments, in order, with up to `ahead` parts in work."""
    waiting: deque[tuple[Part, Future[Done]]] = deque()
    for part, arguments in parts:
        waiting.append((part, pool.submit(function, *arguments)))
        if len(waiting) > ahead:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()
