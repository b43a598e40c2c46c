"""Entropy, diversity and agreement of generated texts; the tokens of a string are separated by whitespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from . import _arrays
from ._arrays import Array, Numbers, check_choice, check_positive_integer
from .uncertainty import entropy

Agreement = Literal["exact", "token_f1"]


def token_entropy(probabilities: Numbers) -> Array:
    """Return the entropy in nats of next-token probabilities: (..., V) to (...)."""
    return entropy(_arrays.probabilities(probabilities, "probabilities"))


def distinct(texts: Sequence[str], n: int = 1) -> float:
    """Return Dist-n (Li et al., 2016): distinct n-grams / all n-grams of the texts together; 0 without n-grams.

    Args:
        texts: strings, e.g. the samples of one input.
        n: tokens in an n-gram.
    """
    _check(texts, at_least=1)
    check_positive_integer(n, "n")
    grams = [gram for text in texts for gram in _ngrams(text.split(), n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def unigram_entropy(texts: Sequence[str]) -> float:
    """Return the entropy in nats of the words of the texts together; 0 without words."""
    _check(texts, at_least=1)
    counts = np.array(list(Counter(word for text in texts for word in text.split()).values()), dtype=float)
    return float(entropy(counts / counts.sum())) if len(counts) else 0.0


def pairwise_agreement(texts: Sequence[str], metric: Agreement = "exact") -> float:
    """Return the mean agreement over all pairs of texts, in [0, 1].

    Args:
        texts: at least two strings, e.g. the samples of one input.
        metric: `"exact"`: 1 for equal strings, else 0; `"token_f1"`: 2 * common tokens / all tokens of both.
    """
    check_choice(metric, "metric", tuple(AGREEMENTS))
    _check(texts, at_least=2)
    return float(np.mean([AGREEMENTS[metric](one, other) for one, other in combinations(texts, 2)]))


def _exact(one: str, other: str) -> float:
    return float(one == other)


def _token_f1(one: str, other: str) -> float:
    """Return the F1 of the two multisets of tokens; 1 for two texts without tokens."""
    first, second = Counter(one.split()), Counter(other.split())
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 1.0


AGREEMENTS: dict[str, Callable[[str, str], float]] = {"exact": _exact, "token_f1": _token_f1}
"""Agreement of two texts, by name."""


def _ngrams(tokens: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def _check(texts: Sequence[str], at_least: int) -> None:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts={texts!r} is not valid; expected a list of strings.")
    if len(texts) < at_least:
        raise ValueError(f"texts has {len(texts)} strings; expected at least {at_least}.")
