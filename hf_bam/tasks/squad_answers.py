"""Answers as SQuAD's scripts score and write them."""

from __future__ import annotations

from dataclasses import dataclass

from ..prediction import Answer


@dataclass(frozen=True)
class Choice:
    """One of the best answers to a question; an empty text is "no answer"."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True)
class SquadAnswer:
    """An answer to a question.

    Attributes:
        text: the answer; an empty string is "no answer".
        probability: its probability among `n_best`.
        span: the best answer that is not empty.
        null_odds: score of "no answer" minus that of the best span.
        n_best: the best answers, highest score first, with "no answer" among them if it is allowed. Their
            probabilities add up to 1, as in the official script.
    """

    text: str
    probability: float
    span: str
    null_odds: float
    n_best: list[Choice]

    @classmethod
    def of_result(cls, result: Answer) -> SquadAnswer:
        """Return a predictor's answer in SQuAD's form."""
        total = sum(candidate.probability for candidate in result.n_best)
        n_best = [Choice(own.answer, own.probability / total, own.start_logit, own.end_logit) for own in result.n_best]
        span = next((choice.text for choice in n_best if choice.text), "")
        return cls(result.answer, result.probability / total, span, result.null_odds, n_best)
