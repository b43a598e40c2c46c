"""Registry of analytic KL divergences, by pairs of posterior and prior distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

Divergence = TypeVar("Divergence", bound=Callable[[Any, Any, Tensor, Tensor], Tensor])
_PAIRS: dict[tuple[type, type], Callable[[Any, Any, Tensor, Tensor], Tensor]] = {}


def register_kl(posterior: type, prior: type) -> Callable[[Divergence], Divergence]:
    """Register the KL of a pair: a function of both and of the tensors that `kl_divergence` takes."""

    def register(function: Divergence) -> Divergence:
        _PAIRS[posterior, prior] = function
        return function

    return register


def kl_divergence(posterior: Any, prior: Any, log_mean: Tensor, log_psi: Tensor) -> Tensor:
    """Return KL(q || p) of each weight, in nats.

    Args:
        posterior: posterior distribution.
        prior: prior distribution; the pair has to be registered.
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


def normal_kl(shift: Tensor, log_sigma: Tensor, log_prior_sigma: Tensor | float = 0.0) -> Tensor:
    """Return KL(N(m, sigma^2) || N(m0, sigma0^2)) with ``shift = m - m0``, by default ``sigma0 = 1``."""
    relative = log_sigma - log_prior_sigma
    scaled = shift if isinstance(log_prior_sigma, float) else shift * (-log_prior_sigma).exp()
    return ((2 * relative).exp() + scaled.square() - 1) / 2 - relative
