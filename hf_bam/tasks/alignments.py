"""True alignments of the small parallel corpus, for the tokens of a tokenizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from ..evaluation.metrics import token_alignment


def token_alignments(
    rows: Dataset, tokenizer: PreTrainedTokenizerBase, *, first_only: bool = False
) -> npt.NDArray[np.bool_]:
    """Return the alignments of rows with the column `alignment`, (B, T, S), padded to the longest texts.

    Row t has the source tokens of target token t, at whose step a decoder with teacher forcing attends to them, so it
    fits the weights of a forward with labels. End tokens and padding are aligned with nothing.

    Args:
        first_only: align the first token of each target word only.
    """
    sources, targets = (tokenizer(list(rows[name])) for name in ("source", "target"))
    found = [
        token_alignment(words, targets.word_ids(row), sources.word_ids(row), first_only=first_only)
        for row, words in enumerate(rows["alignment"])
    ]
    sizes = np.array([own.shape for own in found]).max(axis=0)
    return np.stack([np.pad(own, [(0, size - n) for size, n in zip(sizes, own.shape, strict=True)]) for own in found])
