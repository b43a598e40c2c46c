"""Prior distributions of the unnormalised weights, given the prior attention ``Psi``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


class PriorDistribution:
    """Distribution ``p(S_j)`` around the prior attention of a key, ``Psi_j``; a frozen dataclass of its parameters."""


@dataclass(frozen=True)
class Gamma(PriorDistribution):
    """``S ~ Gamma(alpha, beta)``, shape and rate.

    The shape is ``beta*Psi``, so that the mean is ``Psi``; the paper's ``Psi`` (``prior_shape="psi"``); or a constant.
    """

    beta: float
    alpha: float | None = None
    prior_shape: str = "beta*psi"

    def log_shape(self, log_psi: Tensor) -> Tensor:
        """``log alpha`` for log prior attention."""
        if self.alpha is not None:
            return torch.full_like(log_psi, math.log(self.alpha))
        return log_psi + math.log(self.beta) if self.prior_shape == "beta*psi" else log_psi


@dataclass(frozen=True)
class LognormalPrior(PriorDistribution):
    """``log S ~ N(log Psi - sigma_prior^2/2, sigma_prior^2)``, whose mean is ``Psi``."""

    sigma_prior: float


DISTRIBUTIONS: dict[str, type[PriorDistribution]] = {"weibull": Gamma, "lognormal": LognormalPrior}
"""The prior that goes with each family."""
