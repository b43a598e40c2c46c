"""Record of a latent alignment in one forward pass, between the attention calls and the end of the forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Choice:
    """K alternatives of an alignment, which all go through the rest of the model.

    Attributes:
        index: (K, B, T) the position of each alternative; None: all positions, K = S.
        log_weight: (K, B, T) log of the weight of each alternative in the objective.
        log_p: (K, B, T) log of the weight of each alternative in the prediction.
        value: (B, H, S, D_v) what the positions give.
        weights: (B, H, T, S) soft attention, without a gradient.
        soft: whether soft attention is one more alternative, behind the others and without a gradient.
    """

    index: Tensor | None
    log_weight: Tensor
    log_p: Tensor
    value: Tensor
    weights: Tensor
    soft: bool = False

    @classmethod
    def join(cls, parts: list[Choice]) -> Choice:
        """Return the alternatives of calls that have some of the queries each."""
        if len(parts) == 1:
            return parts[0]
        pairs = ((part.log_weight, part.log_p) for part in parts)
        index = None if parts[0].index is None else torch.cat([p.index for p in parts if p.index is not None], dim=2)
        log_weight, log_p = (torch.cat(logs, dim=2) for logs in zip(*pairs, strict=True))
        return cls(index, log_weight, log_p, parts[0].value, parts[0].weights, parts[0].soft)


@dataclass
class Alignment:
    """Latent alignment of one forward pass.

    Attributes:
        labels: labels of the forward pass, for the inference network; (B, T), or (B,) of a classifier.
        embed: returns the embeddings of the target, (B, T, E); None for a classifier.
        only_record: leave attention as it is and record the distributions alone.
        one_sample: let one sample of the alignment be the only alternative.
        in_weights: put a sample of the alignment into the weights, and record it.
        log_p, log_q: (B, T, S) log-probabilities, -inf for impossible positions; one entry for each call.
        scores: what an inference network returned, for modules that are called step by step.
        drawn: (B, T, S) samples of calls in evaluation mode, as weights.
        sampled: (B, T) samples of calls in training that put them into their weights.
        pending: alternatives of the calls so far.
        chosen: alternatives of all calls, once the rest of the model has got them.
        forced: (N, 1, H, D_v) outputs that attention returns whatever it is called with.
        given: arguments of the forward pass as its caller gave them.
        baseline: (B, T) log-likelihood of the target under soft attention, for samples in several places.
    """

    labels: Tensor | None = None
    embed: Callable[[Tensor], Tensor] | None = None
    only_record: bool = False
    one_sample: bool = False
    in_weights: bool = False
    log_p: list[Tensor] = field(default_factory=list)
    log_q: list[Tensor] = field(default_factory=list)
    scores: dict[int, Tensor] = field(default_factory=dict)
    drawn: list[Tensor] = field(default_factory=list)
    sampled: list[Tensor] = field(default_factory=list)
    pending: list[Choice] = field(default_factory=list)
    chosen: Choice | None = None
    forced: Tensor | None = None
    given: dict[str, Any] = field(default_factory=dict)
    baseline: Tensor | None = None

    def take(self) -> Choice | None:
        """Return the pending alternatives, joined, which then are the chosen ones; None where there are none."""
        if not self.pending:
            return None
        self.chosen, self.pending = Choice.join(self.pending), []
        return self.chosen
