"""Lognormal posterior with a Lognormal prior (BAM-L)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Posterior


@dataclass(frozen=True)
class Lognormal(Posterior):
    """``log S ~ N(mu, sigma^2)`` with ``mu = log E[S] - sigma^2/2``; the prior likewise, with ``sigma_prior``."""

    sigma: float
    sigma_prior: float

    def fill(self, noise: Tensor, generator: torch.Generator | None) -> Tensor:
        """``log z = sigma*eps - sigma^2/2`` with ``eps ~ N(0, 1)``."""
        return noise.normal_(generator=generator).mul_(self.sigma).sub_(self.sigma**2 / 2)

    def quantile(self, u: Tensor) -> Tensor:
        return self.sigma * torch.special.ndtri(u) - self.sigma**2 / 2

    def kl(self, log_mean: Tensor, log_psi: Tensor) -> Tensor:
        """KL(Lognormal || Lognormal), that of the two normal laws of ``log S``.

        log(s2/s1) + (s1^2 + (m1-m2)^2) / (2 s2^2) - 1/2
        """
        shift = log_mean - log_psi + (self.sigma_prior**2 - self.sigma**2) / 2
        constant = math.log(self.sigma_prior / self.sigma) - 0.5
        return constant + (self.sigma**2 + shift.square()) / (2 * self.sigma_prior**2)
