"""Annealing of the KL weight: a pure function of the optimizer step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SCHEDULES: dict[str, Callable[[Tensor], Tensor]] = {
    "constant": torch.ones_like,
    "sigmoid": torch.sigmoid,
    "logistic": lambda progress: torch.sigmoid(10 * progress - 5),
    "linear": lambda progress: progress.clamp(max=1),
    "cyclic": lambda progress: (2 * progress.remainder(1)).clamp(max=1),
}
"""Weight of the KL, between 0 and 1, as a function of rate * step."""


def annealed(weight: float, annealing: str, rate: float, step: Tensor) -> Tensor:
    """Return the KL weight at an optimizer step."""
    return weight * SCHEDULES[annealing](rate * step.to(torch.float32))
