"""Analytic KL divergences, registered by pairs of posterior and prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..families import Lognormal, Posterior, Weibull
from ..priors import Gamma, LognormalPrior, PriorDistribution

EULER_GAMMA = 0.57721566490153286061
Divergence = TypeVar("Divergence", bound=Callable[[Any, Any, Tensor, Tensor], Tensor])
_PAIRS: dict[tuple[type[Posterior], type[PriorDistribution]], Callable[[Any, Any, Tensor, Tensor], Tensor]] = {}


def register_kl(posterior: type[Posterior], prior: type[PriorDistribution]) -> Callable[[Divergence], Divergence]:
    """Registers the KL of a pair, a function of both and of the tensors that `kl_divergence` takes."""

    def register(function: Divergence) -> Divergence:
        _PAIRS[posterior, prior] = function
        return function

    return register


def kl_divergence(posterior: Posterior, prior: PriorDistribution, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """KL(q || p) of each weight, in nats.

    Args:
        log_mean: ``log E_q[S]``, the log soft attention.
        log_psi: log of the prior attention ``Psi``; broadcasts against ``log_mean``.
    """
    function = _PAIRS.get((type(posterior), type(prior)))
    if function is None:
        known = ", ".join(f"{q.__name__} and {p.__name__}" for q, p in _PAIRS)
        raise NotImplementedError(
            f"There is no KL of {type(posterior).__name__} and {type(prior).__name__}; registered are {known}."
        )
    return function(posterior, prior, log_mean, log_psi)


@register_kl(Weibull, Gamma)
def _weibull_gamma(q: Weibull, p: Gamma, log_mean: Tensor, log_psi: Tensor) -> Tensor:
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


@register_kl(Lognormal, LognormalPrior)
def _lognormal_lognormal(q: Lognormal, p: LognormalPrior, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """KL(Lognormal || Lognormal), that of the two normal distributions of ``log S``.

    log(s2/s1) + (s1^2 + (m1-m2)^2) / (2 s2^2) - 1/2
    """
    shift = log_mean - log_psi + (p.sigma_prior**2 - q.sigma**2) / 2
    constant = math.log(p.sigma_prior / q.sigma) - 0.5
    return constant + (q.sigma**2 + shift.square()) / (2 * p.sigma_prior**2)
