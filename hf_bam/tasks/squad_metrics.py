"""Exact match and F1 by the rules of SQuAD's official evaluation scripts, in percent as they report them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..evaluation.metrics.text import AGREEMENTS

Array = NDArray[np.float64]

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation and the articles a, an and the, with single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def squad_1(golds: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Return `exact_match` and `f1` of SQuAD 1.1, means over the questions of the best over the gold answers."""
    exact, f1 = _scores([[normalise(gold) for gold in own] for own in golds], predictions)
    # Two answers that are empty after normalisation match but share no word; only the rules of 2.0 give them F1 = 1.
    f1[[not normalise(text) for text in predictions]] = 0.0
    return {"exact_match": _percent(exact), "f1": _percent(f1)}


def squad_2(
    golds: Sequence[Sequence[str]], predictions: Sequence[str], spans: Sequence[str], null_odds: Sequence[float]
) -> dict[str, float]:
    """Return `exact`, `f1` and `total` of SQuAD 2.0, also by kind: with an answer (`HasAns_`) and without (`NoAns_`).

    `best_exact` and `best_f1` are the scores at the best thresholds for `null_odds`, which are `..._thresh`.

    Args:
        golds: correct answers to each question; an empty list for a question without an answer.
        predictions: answers; an empty string is "no answer".
        spans: the answer to each question if its odds are not above the threshold.
        null_odds: evidence that a question has no answer, on any scale.
    """
    kept = [[gold for gold in map(normalise, own) if gold] or [""] for own in golds]
    has_answer = np.array([own != [""] for own in kept])
    exact, f1 = _scores(kept, predictions)
    scores = _summary(exact, f1)
    for prefix, chosen in {"HasAns_": has_answer, "NoAns_": ~has_answer}.items():
        if chosen.any():
            scores |= {prefix + name: value for name, value in _summary(exact[chosen], f1[chosen]).items()}
    for name, answered in zip(("exact", "f1"), _scores(kept, spans), strict=True):
        gains = np.where(has_answer, answered, [-float(span != "") for span in spans])
        best, threshold = _best(gains, np.asarray(null_odds, dtype=float), nothing=float((~has_answer).sum()))
        scores |= {f"best_{name}": 100 * best / len(gains), f"best_{name}_thresh": threshold}
    return scores


def _best(gains: Array, odds: Array, nothing: float) -> tuple[float, float]:
    """Return the highest sum when questions are answered in the order of their odds, and the odds of the last of them.

    Args:
        gains: gain by answering each question.
        nothing: sum when no question is answered.
    """
    order = np.argsort(odds, kind="stable")
    sums = nothing + np.concatenate([[0.0], np.cumsum(gains[order])])
    number = int(sums.argmax())
    # The script uses 0 for no answers at all, which fits probabilities; odds can be lower.
    threshold = odds[order[number - 1]] if number else odds.min() - 1
    return float(sums[number]), float(threshold)


def _scores(golds: Sequence[Sequence[str]], predictions: Sequence[str]) -> tuple[Array, Array]:
    """Return exact match and F1 of each question, from 0 to 1: the best over its golds, which are normalised."""
    token_f1 = AGREEMENTS["token_f1"]
    pairs = [(normalise(text), own) for text, own in zip(predictions, golds, strict=True)]
    exact = np.array([float(text in own) for text, own in pairs])
    return exact, np.array([max(token_f1(text, gold) for gold in own) for text, own in pairs])


def _summary(exact: Array, f1: Array) -> dict[str, float]:
    return {"exact": _percent(exact), "f1": _percent(f1), "total": float(len(exact))}


def _percent(values: Array) -> float:
    return float(100 * values.mean())
