"""Lognormal posterior with a Lognormal prior (BAM-L)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fields import setting
from ..objective import register_kl
from ..priors import LognormalPrior, MedianLognormalPrior
from .scores import Posterior, ScoreFamily


@dataclass(frozen=True)
class Lognormal(Posterior):
    """``log S ~ N(mu, sigma^2)`` with ``mu = log E[S] - sigma^2/2``."""

    sigma: float

    def quantile(self, u: Tensor) -> Tensor:
        """``log z = sigma*eps - sigma^2/2`` with ``eps ~ N(0, 1)``."""
        return self.sigma * torch.special.ndtri(u) - self.sigma**2 / 2


@register_kl(Lognormal, LognormalPrior)
def _kl(q: Lognormal, p: LognormalPrior, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """KL(Lognormal || Lognormal), that of the two normal distributions of ``log S``.

    log(s2/s1) + (s1^2 + (m1-m2)^2) / (2 s2^2) - 1/2
    """
    return _normal_kl(q.sigma, p.sigma_prior, log_mean - log_psi + (p.sigma_prior**2 - q.sigma**2) / 2)


@register_kl(Lognormal, MedianLognormalPrior)
def _kl_median(q: Lognormal, p: MedianLognormalPrior, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """KL(Lognormal || Lognormal) to a prior with a given median."""
    return _normal_kl(q.sigma, p.sigma_prior, log_mean - log_psi - q.sigma**2 / 2)


def _normal_kl(sigma: float, sigma_prior: float, shift: Tensor) -> Tensor:
    """Return the KL of two normal distributions whose means differ by `shift`."""
    constant = math.log(sigma_prior / sigma) - 0.5
    return constant + (sigma**2 + shift.square()) / (2 * sigma_prior**2)


WIDEST = 1e4
"""Largest `sigma_prior` of a prior whose mean is Psi: its median is ``exp(-sigma_prior^2 / 2)`` below."""


@dataclass(frozen=True)
class LognormalFamily(ScoreFamily):
    """Lognormal noise with a Lognormal prior."""

    sigma: float = setting(1.28, least=1e-15, most=30)
    """Standard deviation of the log weights; the default is as wide as the Weibull's `k=1`."""
    sigma_prior: float = setting(1.0, least=1e-4, most=1e15)
    """Standard deviation of the prior's log weights."""
    prior_location: str = setting("mean", choices=("mean", "median"))
    """Place of Psi in the prior: its `"mean"`, or its `"median"`, with which a large `sigma_prior` makes it flat."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_location == "mean" and self.sigma_prior > WIDEST:
            raise ValueError(
                f"BamConfig.sigma_prior={self.sigma_prior!r} is not valid; it must be at most {WIDEST:g} with "
                "prior_location='mean', whose KL overflows beyond. Use prior_location='median' for a flat prior."
            )

    @property
    def posterior(self) -> Lognormal:
        return Lognormal(self.sigma)

    @property
    def prior_distribution(self) -> LognormalPrior | MedianLognormalPrior:
        kind = LognormalPrior if self.prior_location == "mean" else MedianLognormalPrior
        return kind(self.sigma_prior)
