"""Source of the noise of a model in evaluation mode."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from .noise import derive, new_seed


class Sampling:
    """Source of the noise of a model in evaluation mode: seeds for the examples of every forward.

    Args:
        seed: the same seed gives the same noise; None: a new one from the global generator for every forward.
        fixed: use the same noise in all forwards, as a function of the position of a weight.
        groups: number of equal parts of a batch; the rows of a part share their noise. None: no two rows do.
        rows: (N,) int64, a seed for each of N equal parts of a batch, in the place of all of the above.
        copies: number of copies of the batch, made where it enters the first stochastic layer.
    """

    def __init__(
        self,
        seed: int | None = None,
        fixed: bool = False,
        groups: int | None = None,
        rows: Tensor | None = None,
        copies: int = 1,
    ) -> None:
        if fixed and seed is None:
            seed = new_seed()
        self.seed = None if seed is None else torch.tensor(seed % 2**63)
        self.fixed, self.groups, self.rows, self.copies = fixed, groups, rows, copies
        self.forwards = torch.zeros((), dtype=torch.int64)
        self._lock = threading.Lock()

    def begin(self) -> Tensor:
        """Return the seed of a forward pass, 0-dimensional."""
        if self.rows is not None:
            return self.forwards
        if self.seed is None:
            return torch.randint(2**63 - 1, ())
        if self.fixed:
            return self.seed
        if torch.compiler.is_compiling():
            self.forwards.add_(1)
            return derive(self.seed, self.forwards)
        with self._lock:
            self.forwards += 1
            return derive(self.seed, self.forwards)

    def row_seeds(self, seed: Tensor, batch: int, device: torch.device) -> Tensor:
        """Return the seeds of the examples, (B,), in the forward pass that `begin` gave this seed."""
        rows = self.rows
        if rows is None:
            rows = derive(seed, torch.arange(self.groups or batch))
        if batch % len(rows):
            raise ValueError(f"groups={len(rows)} does not divide the batch of {batch} rows.")
        return rows.repeat_interleave(batch // len(rows)).to(device)
