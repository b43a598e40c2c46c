"""Lognormal posterior (BAM-L)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Posterior


@dataclass(frozen=True)
class Lognormal(Posterior):
    """``log S ~ N(mu, sigma^2)`` with ``mu = log E[S] - sigma^2/2``."""

    sigma: float

    def quantile(self, u: Tensor) -> Tensor:
        """``log z = sigma*eps - sigma^2/2`` with ``eps ~ N(0, 1)``."""
        return self.sigma * torch.special.ndtri(u) - self.sigma**2 / 2
