"""Terms of the loss: the KL of every attention call, and its reduction to one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["mean", "sum"]


@dataclass
class KlTerm:
    """The KL of one attention call, summed over heads and visible keys.

    Attributes:
        total: (B, T) nats for each query.
        count: (B, T) how many entries went into it.
        queries: (B, T) which queries are real tokens, or None when all are.
    """

    total: Tensor
    count: Tensor
    queries: Tensor | None = None

    def reduce(self, reduction: Reduction) -> Tensor:
        """Mean or sum over an example's entries, then the mean over the examples that have any."""
        real = torch.ones_like(self.total) if self.queries is None else self.queries.to(self.total)
        total = (self.total * real).sum(dim=1)  # (B,)
        count = (self.count * real).sum(dim=1)  # (B,)
        value = total / count.clamp(min=1) if reduction == "mean" else total
        return value.sum() / (count > 0).sum().clamp(min=1)


def total_kl(terms: Sequence[KlTerm], reduction: Reduction) -> Tensor:
    """The KL of a forward pass: mean or sum over its attention calls."""
    if not terms:
        raise ValueError("There is no KL: no attention layer was sampled in this forward.")
    device = terms[-1].total.device
    values = torch.stack([term.reduce(reduction).to(device) for term in terms])
    return values.mean() if reduction == "mean" else values.sum()
