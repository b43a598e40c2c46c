"""Training features of SQuAD: windows of the contexts with the positions of the answers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..prediction.heads.spans import in_context, null_position, windows

Batch = dict[str, list[Any]]


def features(rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int) -> Dataset:
    """Return one feature for every window of every row, the windows of a row in their order.

    A feature has the inputs of the model, `start_positions` and `end_positions`.
    """
    encode = partial(_encode, tokenizer=tokenizer, max_length=max_length, stride=stride)
    return rows.map(encode, batched=True, remove_columns=rows.column_names, desc="windows")


def _encode(rows: Batch, tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int) -> Batch:
    encoding = windows(tokenizer, rows["question"], rows["context"], max_length, stride)
    found = {name: encoding[name] for name in tokenizer.model_input_names if name in encoding}
    places = []
    for window, owner in enumerate(encoding["overflow_to_sample_mapping"]):
        offsets = np.where(in_context(encoding, window)[:, None], encoding["offset_mapping"][window], -1)  # (T, 2)
        null = null_position(encoding["input_ids"][window], tokenizer)
        places.append(positions(offsets, rows["answers"][owner]) or (null, null))
    start, end = zip(*places, strict=True)
    return found | {"start_positions": list(start), "end_positions": list(end)}


def positions(offsets: NDArray[np.int64], answers: dict[str, list[Any]]) -> tuple[int, int] | None:
    """Return the first and last token of the first answer; None when the window does not contain all of it.

    Args:
        offsets: (T, 2) characters of the context at which each token begins and ends; -1 for tokens outside of it.
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
