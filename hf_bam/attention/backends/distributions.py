"""Distributions of the compiled kernel: as numbers, which an operator takes, and in the terms of the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...families import Lognormal, Posterior, Weibull
from ...priors import Gamma, LognormalPrior

POSTERIORS: dict[type[Posterior], Callable[[Any], dict[str, float]]] = {
    Weibull: lambda q: {"family": 0, "k": q.k, "spread": 1 / q.k, "offset": -math.lgamma(1 + 1 / q.k)},
    Lognormal: lambda q: {"family": 1, "sigma": q.sigma, "spread": q.sigma, "offset": -(q.sigma**2) / 2},
}
"""Posteriors of the kernel, with their parameters in its terms."""


def _gamma(prior: Gamma) -> dict[str, float]:
    if prior.alpha is not None:
        return {"beta": prior.beta, "shape_slope": 0.0, "shape_offset": math.log(prior.alpha)}
    offset = math.log(prior.beta) if prior.prior_shape == "beta*psi" else 0.0
    return {"beta": prior.beta, "shape_slope": 1.0, "shape_offset": offset}


PRIORS: dict[type, Callable[[Any], dict[str, float]]] = {
    Gamma: _gamma,
    LognormalPrior: lambda p: {"sigma_prior": p.sigma_prior},
}
"""Priors of the kernel, likewise."""


def knows(posterior: Posterior, prior: Any) -> bool:
    """Return whether the kernel can sample the posterior and compute its KL to the prior, if there is one."""
    return type(posterior) in POSTERIORS and (prior is None or type(prior) in PRIORS)


def terms(posterior: Posterior, prior: Any) -> dict[str, float]:
    """Return the fields of `kernel/call.h` that describe the distributions."""
    of_prior = {} if prior is None else PRIORS[type(prior)](prior)
    return {**POSTERIORS[type(posterior)](posterior), **of_prior}


def encode(posterior: Any, prior: Any) -> tuple[list[float], list[float]]:
    """Return posterior and prior as numbers: the index of the class and its parameters; no prior is an empty list."""
    weibull = isinstance(posterior, Weibull)
    numbers = [0.0, posterior.k] if weibull else [1.0, posterior.sigma]
    if prior is None:
        return numbers, []
    if isinstance(prior, LognormalPrior):
        return numbers, [1.0, prior.sigma_prior]
    # A shape is above 0, which stands for none.
    return numbers, [0.0, prior.beta, prior.alpha or 0.0, float(prior.prior_shape == "beta*psi")]


def decode(posterior: Sequence[float], prior: Sequence[float]) -> tuple[Posterior, Any]:
    """Return the distributions that `encode` gave these numbers."""
    kind, parameter = posterior
    found: Posterior = Lognormal(parameter) if kind else Weibull(parameter)
    if not prior:
        return found, None
    if prior[0]:
        return found, LognormalPrior(prior[1])
    _, beta, alpha, by_rate = prior
    return found, Gamma(beta, alpha or None, "beta*psi" if by_rate else "psi")
