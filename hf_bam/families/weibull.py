"""Weibull posterior with a Gamma prior (BAM-W)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fields import setting
from ..objective import register_kl
from ..priors import Gamma
from .scores import Posterior, ScoreFamily

EULER_GAMMA = 0.57721566490153286061


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


@register_kl(Weibull, Gamma)
def _kl(q: Weibull, p: Gamma, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """KL(Weibull || Gamma) with all its constants (Fan et al. 2020, eq. 8).

    gamma*alpha/k - alpha*log(lambda) + log k + beta*lambda*Gamma(1+1/k)
    - gamma - 1 - alpha*log(beta) + lgamma(alpha)
    """
    log_alpha = p.log_shape(log_psi)
    alpha = log_alpha.exp()
    log_scale = log_mean - math.lgamma(1 + 1 / q.k)
    # lgamma(alpha) as lgamma(1 + alpha) - log(alpha): its gradient stays finite for a vanishing alpha.
    log_gamma = torch.lgamma(1 + alpha) - log_alpha
    linear = alpha * (EULER_GAMMA / q.k - log_scale - math.log(p.beta))
    return linear + p.beta * log_mean.exp() + log_gamma + (math.log(q.k) - EULER_GAMMA - 1)


@dataclass(frozen=True)
class WeibullFamily(ScoreFamily):
    """Weibull noise with a Gamma prior."""

    k: float = setting(1.0, least=0.01, most=1e12)
    """Weibull shape. The log weights have a standard deviation of 1.2825/k; from 5 on samples hardly differ."""
    beta: float = setting(100.0, least=1e-15, most=1e8)
    """Rate of the Gamma prior: large values keep the weights closer to the prior."""
    prior_shape: str = setting("beta*psi", choices=("beta*psi", "psi"))
    """Shape of the Gamma prior: `"beta*psi"` makes the prior mean Psi; `"psi"` is the paper's."""
    alpha: float | None = setting(None, least=1e-15, most=1e8)
    """Constant Gamma shape for `prior="fixed"`. None: uniform prior attention, by `prior_shape`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None and self.prior != "fixed":
            raise ValueError(
                f"BamConfig.alpha={self.alpha!r} is not valid; it must be None with prior={self.prior!r}: it is the "
                "Gamma shape of family='weibull' with prior='fixed'."
            )

    @property
    def posterior(self) -> Weibull:
        return Weibull(self.k)

    @property
    def prior_distribution(self) -> Gamma:
        return Gamma(self.beta, self.alpha, self.prior_shape)
