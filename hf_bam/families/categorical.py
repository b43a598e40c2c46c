"""Categorical alignment: every query attends to one key (hard attention)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..fields import setting
from ..objective.alignment import AlignmentKl, categorical_kl, expected, marginal, score_function
from .alignment import Alignment, AlignmentFamily, Choice
from .base import Call


@dataclass(frozen=True)
class CategoricalFamily(AlignmentFamily):
    """One position per query, ``z_t ~ Categorical(p_t)``, with the likelihood ``f(z_t)`` of the target token.

    | objective | per target token |
    |---|---|
    | marginal | ``log sum_i p_i f(i)`` |
    | hard | ``sum_i p_i log f(i)`` |
    | variational | ``sum_i q_i log f(i) - KL(q || p)`` |
    """

    objective: str = setting("marginal", choices=("marginal", "hard", "variational"))
    """Training objective per target token: `"marginal"`, `log E_p[f(z)]`; `"hard"`, `E_p[log f(z)]`; `"variational"`,
    `E_q[log f(z)] - KL(q || p)` with an inference network that reads the target."""
    estimator: str = setting("enumerate", choices=("enumerate", "score"))
    """Expectation in training: `"enumerate"`, over all alignments; `"score"`, one sample with the score-function
    gradient and soft attention as baseline."""
    top_k: int | None = setting(None, least=1)
    """Enumerate the K most probable positions only, renormalised, in training and at test time. none: all."""
    test_time: str = setting("soft", choices=("soft", "expectation"))
    """Prediction without sampling: `"soft"`, by soft attention, as the plain model; `"expectation"`, the mean
    probability over the alignments."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == "marginal" and self.estimator == "score":
            raise ValueError(
                "BamConfig.estimator='score' is not valid with objective='marginal', whose logarithm of a mean has no "
                "unbiased sample; use estimator='enumerate', with top_k to save time, or objective='hard' or "
                "'variational'."
            )
        if self.top_k is not None and self.estimator == "score" and self.test_time == "soft":
            raise ValueError(
                f"BamConfig.top_k={self.top_k} has no effect with estimator='score' and test_time='soft', which do "
                "not enumerate; leave it out, or use estimator='enumerate' or test_time='expectation'."
            )

    @property
    def needs_labels(self) -> bool:
        return self.objective != "marginal"

    @property
    def has_alternatives(self) -> bool:
        return True

    @property
    def has_expectation(self) -> bool:
        return self.test_time == "expectation"

    def kl_terms(self, log_p: Tensor, log_q: Tensor) -> Iterator[AlignmentKl]:
        if self.top_k is not None and self.estimator == "enumerate":
            index = top_positions(log_q, self.top_k)
            log_q, log_p = log_q.gather(-1, index).log_softmax(dim=-1), log_p.gather(-1, index)
        yield AlignmentKl(categorical_kl(log_q, log_p))

    def draw(self, log_p: Tensor, call: Call) -> Tensor:
        return one_hot(draw_index(log_p, call), log_p.shape[-1]).to(log_p.dtype)

    def attend(self, weights: Tensor, call: Call, record: Alignment) -> Tensor:
        """Return soft attention, and leave the alternatives to what follows the attention."""
        training = call.layer.training
        log_p = record.log_p[-1]
        log_w = record.log_q[-1] if training and self.has_network else log_p
        soft = training and self.estimator == "score"
        index: Tensor | None = None
        if soft:
            index = draw_index(log_w.detach(), call)[..., None]
            log_w, log_p = (log.gather(-1, index) for log in (log_w, log_p))
        elif self.top_k is not None and self.top_k < log_w.shape[-1]:
            index = top_positions(log_w, self.top_k)
            log_w, log_p = (log.gather(-1, index).log_softmax(dim=-1) for log in (log_w, log_p))
        alternatives = None if index is None else index.permute(2, 0, 1)
        record.pending = Choice(alternatives, log_w.permute(2, 0, 1), log_p.permute(2, 0, 1), call.value, soft)
        return weights

    def log_likelihood(self, log_f: Tensor, log_weight: Tensor) -> Tensor:
        """Return the objective without its KL, (B, T), from the log-likelihoods of the alternatives.

        Args:
            log_f: (K, B, T); with the score function the sample, and then soft attention.
            log_weight: (K, B, T), or that of the sample.
        """
        if self.estimator == "score":
            return score_function(log_f[0], log_weight[0], baseline=log_f[1])
        return marginal(log_f, log_weight) if self.objective == "marginal" else expected(log_f, log_weight)


def top_positions(log_w: Tensor, number: int) -> Tensor:
    """Return the most probable positions of each query, (B, T, K) for (B, T, S)."""
    return log_w.detach().topk(min(number, log_w.shape[-1]), dim=-1).indices


def draw_index(log_w: Tensor, call: Call) -> Tensor:
    """Return a sample of each query's position, (B, T), from log-probabilities (B, T, S)."""
    cumulative = log_w.exp().cumsum(dim=-1)
    number = call.uniform(1, per_head=False)[:, 0, : log_w.shape[1]].to(cumulative)  # (B, T, 1)
    index = torch.searchsorted(cumulative, number * cumulative[..., -1:], right=True)
    # Rounding may lead behind the last possible position.
    last = (torch.arange(log_w.shape[-1], device=log_w.device) * (log_w > -torch.inf)).amax(dim=-1, keepdim=True)
    return torch.minimum(index, last)[..., 0]
