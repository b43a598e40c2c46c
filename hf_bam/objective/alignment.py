"""Objectives of a latent alignment, per target token (Deng et al. 2018).

K alternatives of the alignment go through the rest of the model, which gives every one of them a log-likelihood
``log f`` of the target token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .terms import IGNORED as IGNORED
from .terms import KL, LossTerm, Reduction


def log_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``log f``, the log-probability of every label, (K, ...) for logits (K, ..., V) and labels (...).

    An ignored label has the log-probability of token 0.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = labels.clamp(min=0).expand(logits.shape[:-1])
    # The backward pass of `gather` would fill another tensor of the size of the logits.
    return -cross_entropy(logits.flatten(0, -2), chosen.flatten(), reduction="none").view(chosen.shape)


def marginal(log_f: Tensor, log_weight: Tensor) -> Tensor:
    """Return ``log sum_k w_k f_k`` of alternatives (K, ...)."""
    return (log_f + log_weight).logsumexp(dim=0)


def expected(log_f: Tensor, log_weight: Tensor) -> Tensor:
    """Return ``sum_k w_k log f_k`` of alternatives (K, ...)."""
    return (log_weight.exp() * log_f).sum(dim=0)


def score_function(log_f: Tensor, log_probability: Tensor, baseline: Tensor) -> Tensor:
    """Return ``log f`` of a sample, with the gradient of its expectation.

    The gradient is ``grad log f + (log f - baseline) grad log q(z)`` for a sample z of q.

    Args:
        log_f: log-likelihood of the sample.
        log_probability: ``log q(z)``.
        baseline: any number that does not depend on z.
    """
    reward = (log_f - baseline).detach()
    return log_f + reward * (log_probability - log_probability.detach())


def categorical_kl(log_q: Tensor, log_p: Tensor, dim: int = -1) -> Tensor:
    """Return KL(q || p) of two categorical distributions, given by their logs, -inf for impossible values."""
    q = log_q.exp()
    return (q * (log_q - log_p).masked_fill(q == 0, 0.0)).sum(dim=dim)


@torch.no_grad()
def mixture(logits: Tensor, log_weight: Tensor) -> Tensor:
    """Return ``log sum_k w_k softmax(logits_k)`` without a gradient, (..., V), one alternative at a time."""
    total = torch.zeros(logits.shape[1:], dtype=log_weight.dtype, device=logits.device)
    for own, weight in zip(logits, log_weight, strict=True):
        own = own.to(total.dtype)
        total += (own + (weight - own.logsumexp(dim=-1))[..., None]).exp_()
    return total.clamp_(min=torch.finfo(total.dtype).tiny).log_().to(logits.dtype)


def differentiable_mixture(logits: Tensor, log_weight: Tensor) -> Tensor:
    """Return ``log sum_k w_k softmax(logits_k)``, (..., V), with its gradient; it takes several times the memory."""
    log_f = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    return (log_f + log_weight[..., None]).logsumexp(dim=0).to(logits.dtype)


def token_mean(values: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of values, (B, T) or (B,), over the labels that are not ignored."""
    kept = (labels != IGNORED).to(values.device)
    return values.where(kept, 0.0).sum() / kept.sum().clamp(min=1)


@dataclass
class AlignmentKl(LossTerm):
    """KL of the alignments of one attention call.

    It is a mean over the target tokens of the batch, as the loss of the model is, so that both add up to a bound.

    Attributes:
        total: (B, T) nats for each query; (B, 1) for a classifier.
    """

    name = KL
    summed = True
    total: Tensor

    @property
    def requires_grad(self) -> bool:
        return self.total.requires_grad

    @classmethod
    def join(cls, parts: Sequence[AlignmentKl]) -> AlignmentKl:
        return cls(torch.cat([part.total for part in parts], dim=1))

    def reduce(self, reduction: Reduction, labels: Tensor | None = None, output: Any = None) -> Tensor:
        """Return the mean over the target tokens; `"sum"`: over those of an example, averaged over the examples."""
        assert labels is not None
        total = self.total.reshape(labels.shape)
        if reduction == "mean":
            return token_mean(total, labels)
        return total.where(labels != IGNORED, 0.0).sum() / max(1, len(labels))


@dataclass
class ScoreTerm(LossTerm):
    """Score-function term of samples that went into the weights of an attention call; its value is 0.

    A sample has an effect on all tokens that attention behind it connects with its query, and its reward is the
    log-likelihood of all of them: those from the query on in a decoder, and all of the example elsewhere.

    Attributes:
        log_probability: (B, T) log-probability of the samples.
        record: what knows the `baseline`, (B, T'), the log-likelihood under soft attention.
        causal: whether queries are positions of the target, which have no effect on earlier ones.
    """

    name = "score"
    summed = True
    log_probability: Tensor
    record: Any
    causal: bool

    def reduce(self, reduction: Reduction, labels: Tensor | None = None, output: Any = None) -> Tensor:
        assert labels is not None
        log_f = log_likelihood(output.logits, labels).detach().reshape(len(labels), -1)
        kept = (labels != IGNORED).reshape(len(labels), -1)
        reward = (log_f - self.record.baseline.reshape(log_f.shape)).where(kept, 0.0)
        reward = reward.flip(1).cumsum(dim=1).flip(1) if self.causal else reward.sum(dim=1, keepdim=True)
        change = self.log_probability - self.log_probability.detach()
        return -(reward * change).sum() / kept.sum().clamp(min=1)
