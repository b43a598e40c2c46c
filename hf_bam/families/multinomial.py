"""Relative frequencies of keys that are drawn from the soft attention, with a uniform prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fields import setting
from ..objective import KlTerm
from .base import Call, Family

LEAST_BLOCK = 64
"""Draws of a row that are made together at least."""


@dataclass(frozen=True)
class MultinomialFamily(Family):
    """Relative frequencies of keys that every query draws from its soft attention, with a uniform prior.

    ``W_i = c_i / counts`` with ``c_i ~ Multinomial(counts, P_i)``, so that ``E[W_i] = P_i`` and
    ``Var[W_ij] = P_ij (1 - P_ij) / counts``. A sample has the gradient of the soft attention (straight-through).
    """

    stage = "weights"

    counts: int = setting(16, least=1, most=2**20)
    """Number of keys that every query draws; large values approach soft attention."""

    def sample(self, weights: Tensor, call: Call) -> Tensor:
        """Return relative frequencies, (B, H, T, S), with the gradient of the soft attention."""
        return weights + (self.frequencies(weights.detach(), call) - weights).detach()

    def frequencies(self, weights: Tensor, call: Call) -> Tensor:
        """Draw keys by the inverse of the cumulative weights, in blocks no larger than the weights."""
        if weights.numel() == 0:
            return weights
        cumulative = weights.cumsum(dim=-1)
        total = cumulative[..., -1:]  # 1, or 0 where the mask allows no key
        number, block = torch.zeros_like(weights), max(weights.shape[-1], LEAST_BLOCK)
        for first in range(0, self.counts, block):
            draws = min(block, self.counts - first)
            points = call.uniform(draws, first=first).to(weights) * total  # (B, H, T, draws)
            drawn = torch.searchsorted(cumulative, points)
            number.scatter_add_(-1, drawn, (total > 0).to(weights).expand_as(points))
        return number / self.counts

    def terms(self, weights: Tensor, call: Call) -> Iterator[KlTerm]:
        """Yield ``counts * sum_j P_ij log(P_ij n_i)``, the KL to equal probabilities of the ``n_i`` allowed keys."""
        mask = call.mask.rows(slice(0, weights.shape[2]), weights.device)  # (B or 1, H or 1, T or 1, S)
        allowed = mask.sum(dim=-1).clamp(min=1)
        # The smallest weight keeps the gradient of the logarithm finite.
        negative_entropy = (weights * weights.clamp(min=1e-30).log()).sum(dim=-1)  # (B, H, T)
        kl = self.counts * (negative_entropy + allowed.log())
        yield KlTerm(kl.sum(dim=1), call.mask.count_keys(weights.device), call.query_mask())
