"""Categorical alignment: every query attends to one key (hard attention)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import one_hot

from ..fields import setting
from ..objective import LossTerm
from ..objective.alignment import AlignmentKl, ScoreTerm, categorical_kl, expected, marginal, score_function
from .alignment import with_rest
from .base import Call
from .discrete import DiscreteFamily, draw_index, top_positions
from .record import Alignment, Choice


@dataclass(frozen=True)
class CategoricalFamily(DiscreteFamily):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == "marginal" and self.estimator == "score":
            raise ValueError(
                "BamConfig.estimator='score' is not valid with objective='marginal', whose logarithm of a mean has no "
                "unbiased sample; use estimator='enumerate', with top_k to save time, or objective='hard' or "
                "'variational'."
            )

    @property
    def needs_labels(self) -> bool:
        return self.objective != "marginal"

    @property
    def enumerates(self) -> bool:
        return self.estimator == "enumerate"

    @property
    def has_alternatives(self) -> bool:
        return True

    def terms(self, weights: Tensor, call: Call) -> Iterator[LossTerm]:
        """Yield the KL, and the score-function term of a sample that goes into the weights of the call."""
        yield from super().terms(weights, call)
        record: Alignment = call.alignment
        if record.only_record or call.layer.alternatives:
            return
        log_w = (record.log_q or record.log_p)[-1]
        record.sampled.append(draw_index(log_w, call))
        yield ScoreTerm(log_w.gather(-1, record.sampled[-1][..., None])[..., 0], record, causal=call.layer.decoder)

    def kl_terms(self, log_p: Tensor, log_q: Tensor) -> Iterator[AlignmentKl]:
        if self.top_k is not None and self.enumerates:
            index = top_positions(log_q, self.top_k)
            log_q, log_p = log_q.gather(-1, index).log_softmax(dim=-1), log_p.gather(-1, index)
        yield AlignmentKl(categorical_kl(log_q, log_p))

    def draw(self, log_p: Tensor, call: Call) -> Tensor:
        return one_hot(draw_index(log_p, call), log_p.shape[-1]).to(log_p.dtype)

    def attend(self, weights: Tensor, call: Call, record: Alignment) -> Tensor:
        """Return soft attention with alternatives behind it, or a sample where the model cannot have them."""
        if not call.layer.training:
            return super().attend(weights, call, record)
        if not call.layer.alternatives:
            return with_rest(one_hot(record.sampled[-1], weights.shape[-1]).to(weights.dtype), weights)
        log_p = record.log_p[-1]
        log_w = (record.log_q or record.log_p)[-1]
        choose = self.best if self.enumerates else self.scored
        record.pending.append(choose(log_w, log_p, weights, call))
        return weights

    def scored(self, log_w: Tensor, log_p: Tensor, weights: Tensor, call: Call) -> Choice:
        """Return a sample with its log-probability, and soft attention behind it as a baseline."""
        index = draw_index(log_w, call)[..., None]
        log_w, log_p = (log.gather(-1, index).permute(2, 0, 1) for log in (log_w, log_p))
        return Choice(index.permute(2, 0, 1), log_w, log_p, call.value, weights.detach(), soft=True)

    def log_likelihood(self, log_f: Tensor, log_weight: Tensor) -> Tensor:
        """Return the objective without its KL, (B, T), from the log-likelihoods of the alternatives.

        Args:
            log_f: (K, B, T); with the score function the sample, and then soft attention.
            log_weight: (K, B, T), or that of the sample.
        """
        if self.estimator == "score":
            return score_function(log_f[0], log_weight[0], baseline=log_f[1])
        return marginal(log_f, log_weight) if self.objective == "marginal" else expected(log_f, log_weight)
