"""Questions with their contexts as windows that a model can read."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..prediction.heads.spans import in_context, windows

Batch = dict[str, list[Any]]


def features(
    rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int, training: bool
) -> Dataset:
    """One feature for every window of every row, the windows of a row one after the other.

    Besides what the model takes, a feature has `start_positions` and `end_positions` when `training`; otherwise what
    decoding needs:

    - `row`: which row it belongs to,
    - `null`: which token stands for "no answer",
    - `begins`, `ends`: where each token stands in the context; -1 for tokens outside of it.
    """
    encode = partial(_encode, tokenizer=tokenizer, max_length=max_length, stride=stride, training=training)
    return rows.map(encode, batched=True, with_indices=True, remove_columns=rows.column_names, desc="windows")


def _encode(
    rows: Batch,
    indices: list[int],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    stride: int,
    training: bool,
) -> Batch:
    encoding = windows(tokenizer, rows["question"], rows["context"], max_length, stride)
    found = {name: encoding[name] for name in tokenizer.model_input_names if name in encoding}
    more: list[dict[str, Any]] = []
    for window, owner in enumerate(encoding["overflow_to_sample_mapping"]):
        inside = in_context(encoding, window)
        offsets = np.where(inside[:, None], encoding["offset_mapping"][window], -1)  # (T, 2)
        null = null_position(encoding["input_ids"][window], tokenizer)
        if training:
            first, last = positions(offsets, rows["answers"][owner]) or (null, null)
            more.append({"start_positions": first, "end_positions": last})
        else:
            begins, ends = offsets.astype(np.int32).T
            more.append({"row": indices[owner], "null": null, "begins": begins, "ends": ends})
    return found | {name: [feature[name] for feature in more] for name in more[0]}


def null_position(tokens: list[int], tokenizer: PreTrainedTokenizerBase) -> int:
    """Which token stands for "no answer": the classification token, or the first one where there is none."""
    return tokens.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in tokens else 0


def positions(offsets: NDArray[np.int64], answers: dict[str, list[Any]]) -> tuple[int, int] | None:
    """First and last token of the first answer; None when the window does not hold all of it.

    Args:
        offsets: (T, 2) where each token begins and ends in the context; -1 for tokens outside of it.
    """
    context = np.flatnonzero(offsets[:, 0] >= 0)
    if not answers["text"] or not context.size:
        return None
    begin = answers["answer_start"][0]
    end = begin + len(answers["text"][0])
    begins, ends = offsets[context].T
    if not begins[0] <= begin < end <= ends[-1]:
        return None
    first, last = np.searchsorted(ends, begin, side="right"), np.searchsorted(begins, end, side="left") - 1
    return (int(context[first]), int(context[last])) if first <= last else None
