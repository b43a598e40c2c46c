"""From the scores of tokens to answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from ..prediction.heads.spans import best_spans
from .base import Outputs

Place = tuple[int, int]
"""Where an answer begins and ends in the context, in characters."""
Logits = tuple[float, float]
"""Of the first and of the last token of an answer."""


@dataclass(frozen=True)
class Choice:
    """One of the best answers to a question; an empty text is "no answer"."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True)
class SquadAnswer:
    """What is answered to a question.

    Attributes:
        text: the answer; an empty string is "no answer".
        probability: of the answer, among `n_best`.
        span: the best answer that is not empty.
        null_odds: the score of "no answer" minus that of the best span.
        n_best: the best answers, highest score first, with "no answer" among them if that is allowed. The
            probabilities are the softmax of their scores.
    """

    text: str
    probability: float
    span: str
    null_odds: float
    n_best: list[Choice]


def answers(
    rows: Dataset,
    features: Dataset,
    outputs: Outputs,
    *,
    number: int,
    longest: int,
    null_threshold: float | None,
) -> list[SquadAnswer]:
    """One answer for each row, out of all its windows.

    Args:
        features: windows with `row`, `null`, `begins` and `ends`, as `squad_features.features` makes them.
        outputs: `start_logits` and `end_logits` of every feature, which may go on over padding on the right.
        number: how many spans are weighed.
        longest: how many tokens an answer has at most.
        null_threshold: the answer is empty when the null odds are above this; None when there is always an answer.
    """
    spans: list[dict[Place, Logits]] = [{} for _ in range(len(rows))]
    nulls: list[list[Logits]] = [[] for _ in range(len(rows))]
    columns = features.select_columns(["row", "null", "begins", "ends"]).with_format("numpy")
    for feature, output in zip(columns, outputs, strict=True):
        begins, ends, row, null = (feature[name] for name in ("begins", "ends", "row", "null"))
        start, end = (output[name][: len(begins)] for name in ("start_logits", "end_logits"))
        if np.isnan(start + end).any():
            raise ValueError(f"Some scores of row {row} are not numbers: training has diverged.")
        own = spans[row]
        for i, j in zip(*best_spans(start, end, begins >= 0, longest, number), strict=True):
            place, logits = (int(begins[i]), int(ends[j])), (float(start[i]), float(end[j]))
            own[place] = max(own.get(place, logits), logits, key=sum)
        nulls[row].append((float(start[null]), float(end[null])))
    return [
        # A window without the answer speaks for none, so all of them have to: the lowest score counts.
        answer(context, own, min(null, key=sum), number, null_threshold)
        for context, own, null in zip(rows["context"], spans, nulls, strict=True)
    ]


def answer(
    context: str, spans: dict[Place, Logits], null: Logits, number: int, null_threshold: float | None
) -> SquadAnswer:
    """The answer to one question, from the spans that were found in its windows."""
    best = sorted(spans.items(), key=_score)[:number]
    found = [(text, logits) for (begin, end), logits in best if (text := context[begin:end].strip())]
    span, logits = found[0] if found else ("", null)
    odds = sum(null) - sum(logits)
    if null_threshold is not None or not found:
        found = sorted([*found, ("", null)], key=_score)
    scores = np.array([sum(logits) for _, logits in found])
    weights = np.exp(scores - scores[0])
    n_best = [
        Choice(text, float(weight), *logits)
        for (text, logits), weight in zip(found, weights / weights.sum(), strict=True)
    ]
    text = "" if null_threshold is not None and odds > null_threshold else span
    probability = next(choice.probability for choice in n_best if choice.text == text)
    return SquadAnswer(text, probability, span, odds, n_best)


def _score(item: tuple[Any, Logits]) -> float:
    """To sort with the highest score first."""
    return -sum(item[1])
