"""Prior distributions of the unnormalised weights, given the prior attention ``Psi``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gamma:
    """``S ~ Gamma(alpha, beta)``, shape and rate.

    The shape is ``beta*Psi``, so that the mean is ``Psi``; the paper's ``Psi`` (``prior_shape="psi"``); or a constant.
    """

    beta: float
    alpha: float | None = None
    prior_shape: str = "beta*psi"

    def log_shape(self, log_psi: Tensor) -> Tensor:
        """Return ``log alpha`` for log prior attention."""
        if self.alpha is not None:
            return torch.full_like(log_psi, math.log(self.alpha))
        return log_psi + math.log(self.beta) if self.prior_shape == "beta*psi" else log_psi


@dataclass(frozen=True)
class LognormalPrior:
    """``log S ~ N(log Psi - sigma_prior^2/2, sigma_prior^2)``, whose mean is ``Psi``."""

    sigma_prior: float


@dataclass(frozen=True)
class MedianLognormalPrior:
    """``log S ~ N(log Psi, sigma_prior^2)``, whose median is ``Psi``. A large ``sigma_prior`` makes it flat."""

    sigma_prior: float
