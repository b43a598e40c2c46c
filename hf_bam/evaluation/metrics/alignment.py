"""Agreement of attention weights with true alignments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._arrays import Numbers, numbers

Flags = npt.NDArray[np.bool_]


def alignment_accuracy(reference: Numbers, weights: Numbers) -> float:
    """Return the share of target tokens whose highest weight is at a source token that they are aligned with.

    Args:
        reference: (..., T, S) booleans, true for aligned tokens. Target tokens without any do not count: special
            tokens and padding.
        weights: (..., T, S) attention weights, or posterior probabilities of the alignment.
    """
    truth, values = numbers(reference, "reference"), numbers(weights, "weights")
    if truth.shape != values.shape or truth.ndim < 2:
        raise ValueError(
            f"reference has shape {truth.shape} and weights {values.shape}; expected the same, (..., T, S)."
        )
    aligned = truth.astype(bool)
    counted = aligned.any(axis=-1)
    if not counted.any():
        raise ValueError("reference aligns no target token; expected at least one.")
    chosen = np.take_along_axis(aligned, values.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    return float(chosen[counted].mean())


def token_alignment(
    words: Sequence[Sequence[int]],
    target: Sequence[int | None],
    source: Sequence[int | None],
    *,
    first_only: bool = False,
) -> Flags:
    """Return an alignment of words as one of tokens, (T, S): tokens are aligned if their words are.

    Args:
        words: for each word of the target the numbers of its words of the source.
        target: number of the word of each target token, None for special tokens: `word_ids()` of an encoding.
        source: the same for the source tokens.
        first_only: align the first token of each target word only. A decoder knows the others from the first, and
            often attends elsewhere at their steps.
    """
    links = [() if own is None else words[own] for own in target]
    if first_only:
        links = [
            () if own in target[:place] else linked
            for place, (own, linked) in enumerate(zip(target, links, strict=True))
        ]
    return np.array([[other is not None and other in linked for other in source] for linked in links])
