"""Loss terms of attention calls, and their reduction at the end of a forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

Reduction = Literal["mean", "sum"]
KL = "kl"
"""Name of the KL of attention calls. Its weight is `kl_weight` with its annealing."""
LATENT_KL = "latent_kl"
"""Name of the KL of latent variables outside of attention calls, with the same weight. Other terms have weight 1."""
IGNORED = -100
"""Label of a token that does not count."""


class LossTerm(ABC):
    """Term that one attention call adds to the loss.

    It is made during the forward pass and reduced when that ends, when the labels and the output are known.
    """

    name: ClassVar[str]
    """Name under which the values of all calls are added up and logged."""
    summed: ClassVar[bool] = False
    """True if the values of several calls are added up whatever the reduction."""

    @property
    def requires_grad(self) -> bool:
        """True if training without the term would lose a gradient."""
        return True

    @classmethod
    def join(cls, parts: Sequence[Any]) -> LossTerm:
        """Return one term for calls of one attention module that each had some of its queries, in their order."""
        raise NotImplementedError(
            f"{cls.__name__} is for attention calls with all queries of a forward pass; this model computes its "
            "attention step by step."
        )

    @abstractmethod
    def reduce(self, reduction: Reduction, labels: Tensor | None, output: Any) -> Tensor:
        """Return the value of the term, a scalar: a mean over the examples of the batch.

        Args:
            reduction: `kl_reduction` of the config, for terms with many entries per example.
            labels: labels of the forward pass.
            output: output of the model, with its logits.
        """


@dataclass
class KlTerm(LossTerm):
    """KL of one attention call, summed over heads and the keys that the mask allows.

    Attributes:
        total: (B, T) nats for each query.
        count: (B, T) number of entries of each query.
        query_mask: (B, T) queries that are not padding; None: all.
    """

    name = KL
    total: Tensor
    count: Tensor
    query_mask: Tensor | None = None

    @property
    def requires_grad(self) -> bool:
        return self.total.requires_grad

    @classmethod
    def join(cls, parts: Sequence[KlTerm]) -> KlTerm:
        masks = [part.query_mask for part in parts if part.query_mask is not None]
        total, count = (torch.cat(own, dim=1) for own in zip(*((p.total, p.count) for p in parts), strict=True))
        return cls(total, count, torch.cat(masks, dim=1) if len(masks) == len(parts) else None)

    def reduce(self, reduction: Reduction, labels: Tensor | None = None, output: Any = None) -> Tensor:
        """Return the mean or sum over an example's entries, averaged over the examples that have any."""
        kept = torch.ones_like(self.total) if self.query_mask is None else self.query_mask.to(self.total)
        total = (self.total * kept).sum(dim=1)  # (B,)
        count = (self.count * kept).sum(dim=1)  # (B,)
        value = total / count.clamp(min=1) if reduction == "mean" else total
        return value.sum() / (count > 0).sum().clamp(min=1)


@dataclass
class LatentKl(LossTerm):
    """KL of latent variables of whole examples.

    Attributes:
        total: (B,) nats for each example.
    """

    name = LATENT_KL
    summed = True
    total: Tensor

    @property
    def requires_grad(self) -> bool:
        return self.total.requires_grad

    def reduce(self, reduction: Reduction, labels: Tensor | None = None, output: Any = None) -> Tensor:
        """Return the KL per target token, as the loss is; `"sum"`, or without such labels: per example."""
        if reduction == "sum" or labels is None or labels.dim() != 2:
            return self.total.mean()
        return self.total.sum() / (labels != IGNORED).sum().clamp(min=1).to(self.total)


@dataclass
class CommitmentTerm(LossTerm):
    """Mean squared distance of states to their codes, which draws the states to the codes.

    Attributes:
        states: (B, S, D).
        codes: (B, S, D) code of each state; they get no gradient.
        mask: (B, S), False for padding.
        weight: 0-dimensional factor.
    """

    name = "commitment"
    states: Tensor
    codes: Tensor
    mask: Tensor
    weight: Tensor

    def reduce(self, reduction: Reduction, labels: Tensor | None = None, output: Any = None) -> Tensor:
        difference = (self.states - self.codes.detach())[self.mask]
        difference = difference.to(torch.promote_types(difference.dtype, torch.float32))
        return self.weight.to(difference) * difference.square().sum() / max(1, difference.numel())


def reduce_terms(
    terms: Sequence[LossTerm], reduction: Reduction, labels: Tensor | None = None, output: Any = None
) -> dict[str, Tensor]:
    """Return the value of each kind of term of a forward pass: mean or sum over its attention calls."""
    values: dict[str, list[Tensor]] = {}
    means = {term.name: reduction == "mean" and not term.summed for term in terms}
    for term in terms:
        values.setdefault(term.name, []).append(term.reduce(reduction, labels, output))
    stacked = {name: torch.stack([value.to(own[-1].device) for value in own]) for name, own in values.items()}
    return {name: own.mean() if means[name] else own.sum() for name, own in stacked.items()}
