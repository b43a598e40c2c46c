"""Weibull posterior with a Gamma prior (BAM-W)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Posterior

EULER_GAMMA = 0.57721566490153286061


@dataclass(frozen=True)
class Weibull(Posterior):
    """``S ~ Weibull(k, lambda)`` with density ``(k/lambda) (s/lambda)^(k-1) exp(-(s/lambda)^k)``.

    The scale follows from the mean, ``lambda = E[S] / Gamma(1 + 1/k)``. The prior is
    ``Gamma(alpha, beta)``, shape and rate. ``log S`` has standard deviation ``1.2825 / k``.
    """

    k: float
    beta: float
    alpha: float | None = None
    prior_shape: str = "beta*psi"

    def fill(self, noise: Tensor, generator: torch.Generator | None) -> Tensor:
        """``log z = log(E)/k - log Gamma(1 + 1/k)`` with ``E ~ Exp(1)``."""
        # The generator may return 0, whose logarithm would spoil a row.
        noise.exponential_(generator=generator).clamp_(min=torch.finfo(noise.dtype).tiny)
        return noise.log_().div_(self.k).sub_(math.lgamma(1 + 1 / self.k))

    def quantile(self, u: Tensor) -> Tensor:
        return torch.log(-torch.log1p(-u)) / self.k - math.lgamma(1 + 1 / self.k)

    def log_shape(self, log_psi: Tensor) -> Tensor:
        """``log alpha`` of the Gamma prior: ``beta*Psi`` (mean ``Psi``), the paper's ``Psi``, or a constant."""
        if self.alpha is not None:
            return torch.full_like(log_psi, math.log(self.alpha))
        return log_psi + math.log(self.beta) if self.prior_shape == "beta*psi" else log_psi

    def kl(self, log_mean: Tensor, log_psi: Tensor) -> Tensor:
        """KL(Weibull || Gamma), analytic, with all its constants (Fan et al. 2020, eq. 8).

        gamma*alpha/k - alpha*log(lambda) + log k + beta*lambda*Gamma(1+1/k)
        - gamma - 1 - alpha*log(beta) + lgamma(alpha)
        """
        log_alpha = self.log_shape(log_psi)
        alpha = log_alpha.exp()
        log_scale = log_mean - math.lgamma(1 + 1 / self.k)
        # lgamma(alpha) as lgamma(1 + alpha) - log(alpha): its gradient stays finite for a vanishing alpha.
        log_gamma = torch.lgamma(1 + alpha) - log_alpha
        linear = alpha * (EULER_GAMMA / self.k - log_scale - math.log(self.beta))
        return linear + self.beta * log_mean.exp() + log_gamma + (math.log(self.k) - EULER_GAMMA - 1)
