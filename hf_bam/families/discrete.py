"""Alignments with one position per query, which can be enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..fields import setting
from ..objective.alignment import AlignmentKl, categorical_kl
from .alignment import AlignmentFamily
from .base import Call
from .record import Alignment, Choice


@dataclass(frozen=True)
class DiscreteFamily(AlignmentFamily):
    """Alignment ``z_t ~ Categorical(p_t)`` of every query, whose mean prediction is a sum over the positions."""

    top_k: int | None = setting(None, least=1)
    """Enumerate the K most probable positions only, renormalised, in training and at test time. none: all."""
    test_time: str = setting("auto", choices=("auto", "soft", "expectation"))
    """Prediction without sampling: `"soft"`, by soft attention, as the plain model; `"expectation"`, the mean
    probability over the alignments; `"auto"`, soft until the first optimizer step, and the expectation from then on
    where alignments can be enumerated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_k is not None and not self.enumerates and self.test_time == "soft":
            raise ValueError(
                f"BamConfig.top_k={self.top_k} has no effect where neither training nor test_time={self.test_time!r} "
                "enumerates alignments; leave it out, or use test_time='expectation'."
            )

    def has_expectation(self, trained: bool = False) -> bool:
        return self.test_time == "expectation" or (self.test_time == "auto" and trained)

    def kl_terms(self, log_p: Tensor, log_q: Tensor) -> Iterator[AlignmentKl]:
        yield AlignmentKl(categorical_kl(log_q, log_p))

    def attend(self, weights: Tensor, call: Call, record: Alignment) -> Tensor:
        """Return soft attention for a mean over the alignments, whose alternatives follow behind it."""
        if call.layer.training:
            return super().attend(weights, call, record)
        log_p = record.log_p[-1]
        choose = self.one_sample if record.one_sample else self.best
        record.pending.append(choose(log_p, log_p, weights, call))
        return weights

    def one_sample(self, log_w: Tensor, log_p: Tensor, weights: Tensor, call: Call) -> Choice:
        """Return a sample as the only alternative, and record it."""
        index = draw_index(log_p, call)[None]
        call.alignment.drawn.append(one_hot(index[0], log_p.shape[-1]).to(log_p.dtype))
        certain = torch.zeros_like(index, dtype=log_p.dtype)
        return Choice(index, certain, certain, call.value, weights.detach())

    def best(self, log_w: Tensor, log_p: Tensor, weights: Tensor, call: Call) -> Choice:
        """Return the positions with the largest weights as alternatives, or all of them."""
        index: Tensor | None = None
        if self.top_k is not None and self.top_k < log_w.shape[-1]:
            top = top_positions(log_w, self.top_k)
            log_w, log_p = (log.gather(-1, top).log_softmax(dim=-1) for log in (log_w, log_p))
            index = top.permute(2, 0, 1)
        return Choice(index, log_w.permute(2, 0, 1), log_p.permute(2, 0, 1), call.value, weights.detach())


def top_positions(log_w: Tensor, number: int) -> Tensor:
    """Return the most probable positions of each query, (B, T, K) for (B, T, S)."""
    return log_w.detach().topk(min(number, log_w.shape[-1]), dim=-1).indices


def draw_index(log_w: Tensor, call: Call) -> Tensor:
    """Return a sample of each query's position, (B, T), from log-probabilities (B, T, S)."""
    cumulative = log_w.detach().exp().cumsum(dim=-1)
    number = call.uniform(1, per_head=False)[:, 0, : log_w.shape[1]].to(cumulative)  # (B, T, 1)
    index = torch.searchsorted(cumulative, number * cumulative[..., -1:], right=True)
    # Rounding may lead behind the last possible position.
    last = (torch.arange(log_w.shape[-1], device=log_w.device) * (log_w > -torch.inf)).amax(dim=-1, keepdim=True)
    return torch.minimum(index, last)[..., 0]
