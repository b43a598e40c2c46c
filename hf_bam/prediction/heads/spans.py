"""Windows of long contexts, and the best spans of a context in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from transformers import PreTrainedTokenizerBase

from ..inputs import tokenize
from ..results import Array


def window_strides(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], max_length: int, stride: int
) -> list[int]:
    """Return the overlap of the windows behind each question: `stride`, or half of the tokens that it leaves."""
    if not tokenizer.is_fast:
        raise ValueError(
            f"Question answering needs a fast tokenizer, which knows where a token stands in its text; "
            f"{type(tokenizer).__name__} is not one."
        )
    stripped = [question.strip() for question in questions]
    lengths = [len(ids) for ids in tokenize(tokenizer, stripped, add_special_tokens=False, verbose=False)["input_ids"]]
    left = [max_length - length - tokenizer.num_special_tokens_to_add(pair=True) for length in lengths]
    if min(left) < 8:
        raise ValueError(f"A question of {max(lengths)} tokens leaves no room for a context within {max_length}.")
    return [min(stride, tokens // 2) for tokens in left]


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
    return tokenize(
        tokenizer,
        [question.strip() for question in questions],
        list(contexts),
        truncation="only_second",
        max_length=max_length,
        stride=min(window_strides(tokenizer, questions, max_length, stride)),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        **options,
    )


def in_context(encoding: Any, window: int) -> Array:
    """Return which tokens of a window belong to the context, (T,)."""
    return np.array([kind == 1 for kind in encoding.sequence_ids(window)])


def null_position(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the token that stands for "no answer": the classification token, or the first one without it."""
    return list(tokens).index(tokenizer.cls_token_id) if tokenizer.cls_token_id in tokens else 0


@dataclass(frozen=True)
class Spans:
    """Spans of a context.

    Attributes:
        places: (K, 2) first character and the one behind the last.
        start, end: (S, K) logits of the first and the last token.
    """

    places: Array
    start: Array
    end: Array

    def distinct(self) -> Spans:
        """Return every place once, in the order of the context, with the logits of its highest score."""
        if not len(self.places):
            return self
        unique, group = np.unique(self.places, axis=0, return_inverse=True)
        scores = self.start + self.end
        order = np.lexsort((scores, np.broadcast_to(group.ravel(), scores.shape)))  # (S, M) by place, then by score
        best = order[:, np.bincount(group.ravel()).cumsum() - 1]  # (S, K)
        return Spans(unique, *(np.take_along_axis(logits, best, axis=1) for logits in (self.start, self.end)))


def joined(parts: Sequence[Spans]) -> Spans:
    """Return the spans of several windows of a context together."""
    logits = (np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("start", "end"))
    return Spans(np.concatenate([part.places for part in parts]), *logits)


def window_spans(
    start: Array, end: Array, inside: Array, offsets: Array, context: str, longest: int, number: int
) -> Spans:
    """Return the `number` spans of a window with the highest mean score, without the whitespace around them.

    Args:
        start, end: (S, T) logits of the tokens.
        inside: (T,) tokens that belong to the context.
        offsets: (T, 2) characters of the tokens.
        longest: largest number of tokens of a span.
    """
    first, last = best_spans(start.mean(axis=0), end.mean(axis=0), inside, longest, number)
    text = np.flatnonzero([not character.isspace() for character in context])
    begins, ends = (np.searchsorted(text, offsets[tokens, side]) for side, tokens in enumerate((first, last)))
    kept = begins < ends  # else it is nothing but whitespace
    first, last = first[kept], last[kept]
    places = np.stack([text[begins[kept]], text[ends[kept] - 1] + 1], axis=-1)
    return Spans(places, start[:, first], end[:, last])


def best_spans(start: Array, end: Array, inside: Array, longest: int, number: int) -> tuple[Array, Array]:
    """Return the first and last tokens of the `number` spans with the highest `start[first] + end[last]`, best first.

    Args:
        start, end: (T,) scores of the tokens.
        inside: (T,) tokens that may be part of a span.
        longest: largest number of tokens of a span.
    """
    start, end = (np.where(inside, scores, -np.inf) for scores in (start, end))
    reached = sliding_window_view(np.pad(end, (0, longest - 1), constant_values=-np.inf), longest)
    cost = -(start[:, None] + reached).ravel()  # (T * longest,): first token, number of further tokens
    number = min(number, int(np.isfinite(cost).sum()))
    top = np.argpartition(cost, min(number, cost.size - 1))[:number]
    first, more = np.divmod(top[np.lexsort((top, cost[top]))], longest)
    return first, first + more
