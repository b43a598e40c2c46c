"""No prior: stochastic attention without a KL."""

from __future__ import annotations

from torch import Tensor

from .base import Prior


class NoPrior(Prior):
    """Asks for no KL: the weights are drawn, and only the task loss teaches them."""

    def forward(self, key: Tensor, visible: Tensor) -> None:
        return None
