"""Attention as a latent alignment: what its families have in common (Deng et al. 2018)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fields import setting
from ..objective import LossTerm
from ..objective.alignment import IGNORED
from .base import Call, Family
from .inference import LabelInference, SequenceInference
from .record import Alignment

NETWORK = "inference"
"""Name of the inference network among the children of a layer."""


@dataclass(frozen=True)
class AlignmentFamily(Family):
    """Family with one latent alignment per query: ``z_t = i`` makes all heads of the query attend to key i.

    The model's attention gives its prior ``p(z_t = i)``, the mean of the soft attention over the heads. With
    ``objective="variational"`` an inference network that reads the target gives the posterior ``q(z_t = i)``.
    """

    stage = "weights"
    defaults: ClassVar[Mapping[str, Any]] = {"kl_weight": 1.0, "layers": 1, "attention": "alignment"}

    objective: str = setting("variational", choices=("variational", "hard"))
    """Training objective per target token: `"variational"`, `E_q[log f(z)] - KL(q || p)` with an inference network
    that reads the target, or `"hard"`, `E_p[log f(z)]`."""
    d_inference: int = setting(128, least=1, most=2**13)
    """Size of each direction of the inference network's LSTM."""

    @property
    def has_network(self) -> bool:
        return self.objective == "variational"

    @property
    def needs_labels(self) -> bool:
        """True if training needs the labels in the forward pass."""
        return self.has_network

    @property
    def enumerates(self) -> bool:
        """True if training goes through alternatives of an alignment one by one."""
        return False

    def has_expectation(self, trained: bool = False) -> bool:
        """Return whether a prediction without sampling is the mean over the alignments, before or after training."""
        return False

    @property
    def has_alternatives(self) -> bool:
        """True if alternatives of an alignment follow behind the attention in training, where the model allows it."""
        return self.enumerates

    def sequence_network(self, target_dim: int, key_dim: int) -> dict[str, nn.Module]:
        """Return the inference network of a model that generates the target, by name."""
        return {NETWORK: SequenceInference(target_dim, key_dim, self.d_inference)} if self.has_network else {}

    def label_network(self, num_labels: int, key_dim: int) -> dict[str, nn.Module]:
        """Return the inference network of a classifier, by name."""
        return {NETWORK: LabelInference(num_labels, key_dim)} if self.has_network else {}

    def terms(self, weights: Tensor, call: Call) -> Iterator[LossTerm]:
        """Record the distributions of the alignment, and yield the KL of the posterior."""
        record = required(call)
        self.infer(weights, call, record)
        if self.has_network and not record.only_record:
            yield from self.kl_terms(record.log_p[-1], record.log_q[-1])

    def infer(self, weights: Tensor, call: Call, record: Alignment) -> None:
        """Record the prior and, where the labels are known, the posterior."""
        record.log_p.append(log_prior(weights, call))
        if self.has_network and record.labels is not None:
            record.log_q.append(log_posterior(call, record))

    @abstractmethod
    def kl_terms(self, log_p: Tensor, log_q: Tensor) -> Iterator[LossTerm]:
        """Yield KL(q || p), from log-probabilities (B, T, S)."""

    def sample(self, weights: Tensor, call: Call) -> Tensor:
        """Return sampled weights, (B, H, T, S), or the soft ones where alternatives follow behind the attention."""
        record = call.alignment
        if record is None or record.in_weights:
            own = self.draw(log_prior(weights, call), call)
            if record is not None:
                record.drawn.append(own)
            return with_rest(own, weights)
        if not call.layer.training:
            self.infer(weights, call, record)
        return weights if record.only_record else self.attend(weights, call, record)

    @abstractmethod
    def draw(self, log_p: Tensor, call: Call) -> Tensor:
        """Return a sample of the alignment as weights, (B, T, S), from log-probabilities."""

    def attend(self, weights: Tensor, call: Call, record: Alignment) -> Tensor:
        """Return the weights of a forward pass whose distributions were recorded: a sample of the posterior."""
        return with_rest(self.draw((record.log_q or record.log_p)[-1], call), weights)


def required(call: Call) -> Alignment:
    """Return the record of the open forward pass, or raise an error."""
    record: Alignment | None = call.alignment
    if record is None:
        raise RuntimeError(
            "A latent alignment is trained by the forward of the whole model, which knows the target. Call the model "
            "with labels=..., rather than its layers or the model inside it."
        )
    return record


def log_prior(weights: Tensor, call: Call) -> Tensor:
    """Return ``log p(z)``, the log of the mean of soft attention over the heads, (B, T, S); -inf outside of the mask.

    A query that may attend to nothing has a uniform distribution, so that it stays finite.
    """
    weights = weights[:, :, : call.layer.queries]
    mask = call.mask.rows(slice(0, weights.shape[2]), weights.device).any(dim=1)  # (B or 1, T or 1, S)
    p = weights.to(torch.promote_types(weights.dtype, torch.float32)).mean(dim=1)
    # The smallest number that is not taken for 0 keeps the gradient of the logarithm finite.
    log_p = p.clamp(min=torch.finfo(p.dtype).tiny).log().masked_fill(~mask, -torch.inf)
    return torch.where(mask.any(dim=-1, keepdim=True), log_p, -math.log(max(1, p.shape[-1])))


def log_posterior(call: Call, record: Alignment) -> Tensor:
    """Return ``log q(z)``, (B, T, S): that of the prior plus the scores of the inference network, normalised."""
    first, number = call.first_query, call.layer.number
    scores = record.scores.get(number)
    if scores is None or first is None:
        scores = record.scores[number] = _posterior_scores(call, record)
    if first is not None:
        scores = scores[:, first : first + call.query.shape[2]]
    return (record.log_p[-1] + scores).log_softmax(dim=-1)


def _posterior_scores(call: Call, record: Alignment) -> Tensor:
    """Return what the inference network gives for the whole target, (B, T, S)."""
    labels, network = record.labels, call.layer.get_submodule(NETWORK)
    assert labels is not None
    labels = labels.to(call.key.device)
    keys = call.key.transpose(1, 2).flatten(2)  # (B, S, H * D)
    target = () if record.embed is None else (record.embed(labels.clamp(min=0)).to(keys.device),)
    scores: Tensor = network(*target, labels if record.embed is None else labels != IGNORED, keys)
    return scores


def with_rest(own: Tensor, weights: Tensor) -> Tensor:
    """Return weights of all heads, (B, H, T, S): `own` (B, T', S) for the first queries, and the rest as it is."""
    first = own.shape[1]
    allowed = (weights[:, :, :first] > 0).any(dim=-1, keepdim=True)  # a query that may attend to nothing keeps zeros
    expanded = own[:, None].to(weights.dtype) * allowed
    return expanded if first == weights.shape[2] else torch.cat([expanded, weights[:, :, first:]], dim=2)
