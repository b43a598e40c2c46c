"""Runs of a predictor over many inputs: batches, progress and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from tqdm.auto import tqdm

from .inputs import chunks

if TYPE_CHECKING:
    from .base import BasePredictor


WITH_FEATURES = ("features", "ood_scores")
"""Methods of a head that need features, whatever was fitted."""


def run(predictor: BasePredictor[Any], items: Iterable[Any], method: str = "predict") -> Iterator[Any]:
    """Yield what a method of the predictor's head returns for each input, in order."""
    head = predictor.head(features=method in WITH_FEATURES)
    total = len(items) if isinstance(items, list) else None
    disable = None if predictor.progress is None else not predictor.progress
    with tqdm(total=total, unit="input", disable=disable, leave=False) as bar:
        for part in chunks(items, 8 * predictor.batch_size):
            with torch.inference_mode():
                results = sorted_batches(getattr(head, method), part, head.lengths(part), predictor.batch_size)
            bar.update(len(part))
            yield from results


def run_everywhere(predictor: BasePredictor[Any], items: list[Any], method: str) -> list[Any]:
    """Return all results of `run`; in a distributed run every process computes its part of them and gets all."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return list(run(predictor, items, method))
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    share = -(-len(items) // ranks)
    own = list(run(predictor, items[rank * share : (rank + 1) * share], method))
    shares: list[list[Any]] = [[] for _ in range(ranks)]
    distributed.all_gather_object(shares, own)
    return [result for part in shares for result in part]


def sorted_batches(
    function: Callable[[list[Any]], Sequence[Any]], items: list[Any], lengths: Sequence[int], size: int
) -> list[Any]:
    """Return the results of some inputs, in their order, from batches of similar length."""
    order = sorted(range(len(items)), key=lambda index: lengths[index])
    results: list[Any] = [None] * len(items)
    for indices in chunks(order, size):
        for index, result in zip(indices, function([items[i] for i in indices]), strict=True):
            results[index] = result
    return results
