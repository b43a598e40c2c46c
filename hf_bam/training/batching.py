"""Batches of similar length, as a function of seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset
from numpy.typing import NDArray

MOST_REPEATS = 64
"""Repeats of an example in one step, at most; a batch is filled up where there are few examples."""
POOL = 50
"""Batches that are sorted together: enough for little padding, few enough that batches differ between epochs."""


@dataclass(frozen=True)
class Batches:
    """Batches of every epoch, which depend on seed and epoch alone.

    Examples are shuffled, sorted by length within pools of batches, and the batches shuffled again. The last batch of
    an epoch is filled up with examples of the same epoch, so all have the same size.

    Attributes:
        lengths: (N,) tokens of each example.
        size: examples per step, over all processes.
        parts: batches into which a process divides its share of a step.
        sort: False: batches of mixed lengths.
    """

    lengths: NDArray[np.int64]
    size: int
    parts: int = 1
    processes: int = 1
    seed: int = 0
    sort: bool = True

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise ValueError("There are no examples to train on.")
        if self.size > MOST_REPEATS * len(self.lengths):
            raise ValueError(
                f"batch_size={self.size} is too large for {len(self.lengths)} training examples: a step would repeat "
                f"each more than {MOST_REPEATS} times."
            )
        if self.size % (self.parts * self.processes):
            raise ValueError(
                f"batch_size={self.size} cannot be divided among gradient_accumulation_steps={self.parts} batches of "
                f"{self.processes} processes; it must be a multiple of {self.parts * self.processes}."
            )

    def __len__(self) -> int:
        """Return the number of steps of an epoch."""
        return -(-len(self.lengths) // self.size)

    def steps(self, epoch: int) -> NDArray[np.int64]:
        """Return (steps, size) the examples of each step, within a step from the longest to the shortest."""
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.lengths))
        order = np.resize(order, len(self) * self.size)
        if not self.sort:
            return order.reshape(-1, self.size)
        pool = POOL * self.size
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        sorted_order = np.concatenate([part[np.argsort(-self.lengths[part], kind="stable")] for part in pools])
        return random.permutation(sorted_order.reshape(-1, self.size), axis=0)

    def share(self, epoch: int, process: int, start: int = 0) -> list[list[int]]:
        """Return the batches of one process, `parts` of them for each step, from step `start` on.

        At any time the processes work on neighbouring parts of a step, which take about the same time.
        """
        steps = self.steps(epoch)[start:]
        cut = steps.reshape(len(steps), self.parts, self.processes, -1)
        return cut[:, :, process].reshape(len(steps) * self.parts, -1).tolist()


def sorted_batches(lengths: NDArray[np.int64], size: int) -> list[list[int]]:
    """Return batches for evaluation, the longest examples first."""
    order = np.argsort(-lengths, kind="stable").tolist()
    return [order[start : start + size] for start in range(0, len(order), size)]


def feature_lengths(features: Dataset) -> NDArray[np.int64]:
    """Return (N,) the number of tokens of each example: of the input and, if they are tokens, of the labels."""
    names = [name for name in ("input_ids", "labels") if name in features.column_names]
    columns = features.select_columns(names).with_format("arrow")[:]
    lengths = np.zeros(len(features), dtype=np.int64)
    for name in names:
        if "list" in str(columns[name].type):
            lengths += np.asarray(pc.list_value_length(columns[name]))
    return lengths


def padding(lengths: NDArray[np.int64], batches: Sequence[Sequence[int]]) -> float:
    """Return the fraction of padding among the tokens of all batches."""
    tokens = sum(int(lengths[list(batch)].sum()) for batch in batches)
    padded = sum(int(lengths[list(batch)].max()) * len(batch) for batch in batches)
    return 1 - tokens / padded
