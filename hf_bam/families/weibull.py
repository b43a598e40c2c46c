"""Weibull posterior (BAM-W)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Posterior


@dataclass(frozen=True)
class Weibull(Posterior):
    """``S ~ Weibull(k, lambda)`` with density ``(k/lambda) (s/lambda)^(k-1) exp(-(s/lambda)^k)``.

    The scale follows from the mean, ``lambda = E[S] / Gamma(1 + 1/k)``. ``log S`` has standard deviation
    ``1.2825 / k``.
    """

    k: float

    def quantile(self, u: Tensor) -> Tensor:
        """``log z = log(E)/k - log Gamma(1 + 1/k)`` with ``E = -log(1 - u)``, which is Exp(1)."""
        return torch.log(-torch.log1p(-u)) / self.k - math.lgamma(1 + 1 / self.k)
