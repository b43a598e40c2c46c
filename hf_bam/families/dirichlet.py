"""Dirichlet alignment: the row of weights of a query is a point of the simplex."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Gamma

from ..fields import setting
from ..objective.alignment import AlignmentKl
from .alignment import AlignmentFamily
from .base import Call

SMALLEST = 1e-2
"""Added to every concentration: the KL grows with the inverse of the smallest one."""
TRIES = 8
"""Proposals for a Gamma variable, of which each is accepted with a probability above 0.95."""


@dataclass(frozen=True)
class DirichletFamily(AlignmentFamily):
    """Relaxed alignment ``z_t ~ Dirichlet(alpha_t)`` with ``alpha_ti = concentration * p_ti``, whose mean is ``p_t``.

    The posterior has the same form around ``q_t``. Samples are normalised Gamma variables, with torch's implicit
    reparameterisation; the KL is analytic.
    """

    concentration: float = setting(10.0, least=1e-6, most=1e6)
    """Sum of the Dirichlet parameters: large values approach soft attention, values below 1 single positions."""

    def parameters(self, log_p: Tensor) -> Tensor:
        """Return the Dirichlet parameters, (B, T, S); 0 for impossible positions."""
        return (self.concentration * log_p.exp() + SMALLEST).masked_fill(log_p == -torch.inf, 0.0)

    def kl_terms(self, log_p: Tensor, log_q: Tensor) -> Iterator[AlignmentKl]:
        yield AlignmentKl(dirichlet_kl(self.parameters(log_q), self.parameters(log_p)))

    def draw(self, log_p: Tensor, call: Call) -> Tensor:
        alpha = self.parameters(log_p)

        def uniform(stream: int) -> Tensor:
            return call.uniform(alpha.shape[-1], per_head=False, stream=stream)[:, 0, : alpha.shape[1]].to(alpha)

        possible = alpha > 0
        shape = alpha.where(possible, 1.0)
        if call.layer.training:
            larger = Gamma(shape + 1, torch.ones_like(shape)).rsample().log()
        else:
            larger = log_gamma_samples(shape + 1, uniform)
        # Gamma(a) = Gamma(a + 1) * U^(1/a), in logs because it underflows for small a.
        log_gamma = larger + uniform(0).log() / shape
        return log_gamma.masked_fill(~possible, -torch.inf).softmax(dim=-1)


def dirichlet_kl(a: Tensor, b: Tensor) -> Tensor:
    """Return KL(Dirichlet(a) || Dirichlet(b)), (...) for parameters (..., S); those that are 0 do not take part."""
    possible = a > 0
    total_a, total_b = a.sum(dim=-1), b.sum(dim=-1)
    a, b = (x.where(possible, 1.0) for x in (a, b))
    of_entries = b.lgamma() - a.lgamma() + (a - b) * (a.digamma() - total_a.digamma()[..., None])
    return total_a.lgamma() - total_b.lgamma() + of_entries.where(possible, 0.0).sum(dim=-1)


def log_gamma_samples(shape: Tensor, uniform: Callable[[int], Tensor]) -> Tensor:
    """Return logs of Gamma variables from uniform numbers, for shapes of 1 and above (Marsaglia and Tsang 2000).

    Args:
        uniform: returns independent uniform numbers like `shape` for different whole numbers above 0.
    """
    d = shape - 1 / 3
    log_v = torch.zeros_like(shape)  # the mode, if all proposals were rejected
    accepted = torch.zeros_like(shape, dtype=torch.bool)
    for number in range(TRIES):
        x = torch.special.ndtri(uniform(2 * number + 1))
        v = (1 + x / (3 * d.sqrt())) ** 3
        log = v.clamp(min=math.exp(-80)).log()
        fits = (v > 0) & (uniform(2 * number + 2).log() < x**2 / 2 + d * (1 - v + log))
        log_v = torch.where(fits & ~accepted, log, log_v)
        accepted |= fits
    return d.log() + log_v
