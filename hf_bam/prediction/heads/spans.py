"""Windows of long contexts and the best spans of tokens in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from transformers import PreTrainedTokenizerBase

from ..inputs import tokenize
from ..results import Array


def windows(
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    stride: int,
    **options: Any,
) -> Any:
    """Return the contexts as overlapping windows of up to `max_length` tokens, each behind its question.

    The encoding contains `offset_mapping` and `overflow_to_sample_mapping` besides the inputs of the model.

    Args:
        stride: number of tokens that two neighbouring windows share; at most half of what the longest question leaves.
        options: further arguments of the tokenizer.
    """
    if not tokenizer.is_fast:
        raise ValueError(
            f"Question answering needs a fast tokenizer, which knows where a token stands in its text; "
            f"{type(tokenizer).__name__} is not one."
        )
    questions = [question.strip() for question in questions]
    alone = tokenize(tokenizer, questions, add_special_tokens=False, verbose=False)["input_ids"]
    longest = max(len(tokens) for tokens in alone)
    left = max_length - longest - tokenizer.num_special_tokens_to_add(pair=True)
    if left < 8:
        raise ValueError(f"A question of {longest} tokens leaves no room for a context within {max_length}.")
    return tokenize(
        tokenizer,
        questions,
        list(contexts),
        truncation="only_second",
        max_length=max_length,
        stride=min(stride, left // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        **options,
    )


def in_context(encoding: Any, window: int) -> Array:
    """Return which tokens of a window belong to the context, (T,)."""
    return np.array([kind == 1 for kind in encoding.sequence_ids(window)])


def best_spans(start: Array, end: Array, inside: Array, longest: int, number: int) -> tuple[Array, Array]:
    """Return the first and last tokens of the `number` spans with the highest `start[first] + end[last]`, best first.

    Args:
        start, end: (T,) scores of the tokens.
        inside: (T,) tokens that may be part of a span.
        longest: largest number of tokens of a span.
    """
    start, end = (np.where(inside, scores, -np.inf) for scores in (start, end))
    reached = sliding_window_view(np.pad(end, (0, longest - 1), constant_values=-np.inf), longest)
    cost = -(start[:, None] + reached).ravel()  # (T * longest,): first token, further tokens
    number = min(number, int(np.isfinite(cost).sum()))
    top = np.argpartition(cost, min(number, cost.size - 1))[:number]
    first, more = np.divmod(top[np.lexsort((top, cost[top]))], longest)
    return first, first + more
