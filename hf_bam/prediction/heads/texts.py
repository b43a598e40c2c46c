"""Results of generation and of the scoring of given texts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from ..results import Array, Result


@dataclass(frozen=True)
class GeneratedToken:
    """A token of a generated or given text, with its uncertainty given the tokens before it.

    Attributes:
        probability: mean of its probability over the samples.
        std: standard deviation of its probability over the samples.
        entropy: total uncertainty of the distribution over the vocabulary, in nats.
        aleatoric: aleatoric part of it.
        epistemic: epistemic part of it.
        log_probability: mean of its log-probability over the samples.
        log_probability_std: standard deviation of its log-probability over the samples.
    """

    text: str
    probability: float
    std: float
    entropy: float
    aleatoric: float
    epistemic: float
    log_probability: float
    log_probability_std: float


@dataclass(frozen=True, repr=False)
class Generation(Result):
    """A generated text, or a given one with its scores.

    Attributes:
        text: output of the deterministic model, or the given text.
        probability: geometric mean of the token probabilities under the average of the samples.
        entropy: total uncertainty, mean over the tokens.
        aleatoric: aleatoric part of it.
        epistemic: epistemic part of it.
        log_probability: mean over the samples of the log-probability of the whole text, the sum over its tokens.
        log_probability_std: standard deviation of it over the samples.
        log_likelihood: logarithm of the mean probability of the whole text over the samples; not below
            `log_probability`. The difference is large when the samples disagree about the text.
        hypotheses: further texts, each generated from one sample; none for a given text.
        agreement: mean token overlap (F1) between the hypotheses; NaN without any.
        truncated: the input, or a given text, is longer than `max_length`.
        samples: (S, L) probability of every token in every sample.
        alignments: (S, L, source tokens) weights of the source tokens at every token in every sample of a latent
            alignment, one of them 1 for family="categorical"; None for other families.
    """

    text: str
    probability: float
    entropy: float
    aleatoric: float
    epistemic: float
    log_probability: float
    log_probability_std: float
    log_likelihood: float
    tokens: list[GeneratedToken]
    hypotheses: list[str]
    agreement: float
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    alignments: Array | None = field(default=None, repr=False)
    predicted: ClassVar[str] = "text"
    columns: ClassVar[tuple[str, ...]] = (
        "probability",
        "entropy",
        "aleatoric",
        "epistemic",
        "log_probability",
        "log_probability_std",
        "log_likelihood",
        "num_samples",
        "truncated",
    )

    @property
    def prediction(self) -> str:
        return self.text

    def row(self) -> dict[str, Any]:
        """Return the columns, with the tokens, and with the hypotheses if there are any."""
        further = {"hypotheses": self.hypotheses, "agreement": self.agreement} if self.hypotheses else {}
        return {**super().row(), **further, "tokens": [asdict(token) for token in self.tokens]}
