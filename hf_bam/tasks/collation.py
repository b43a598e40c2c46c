"""Batches of source and target texts."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor
from transformers import DataCollatorForSeq2Seq

INPUTS = "decoder_input_ids"
IGNORED = -100


def collate(
    features: list[dict[str, Any]],
    collator: DataCollatorForSeq2Seq,
    names: list[str],
    dropped: tuple[float, int | None] = (0.0, None),
) -> dict[str, Tensor]:
    """Return a padded batch of features, without columns that the model does not accept.

    Args:
        dropped: rate of word dropout, and the token in the place of dropped ones.
    """
    batch = collator([{name: value for name, value in feature.items() if name in names} for feature in features])
    found = {name: value for name, value in batch.items() if value is not None}
    rate, token = dropped
    if rate and token is not None and INPUTS in found:
        found[INPUTS] = drop_words(found[INPUTS], found["labels"], rate, token)
    return found


def drop_words(inputs: Tensor, labels: Tensor, rate: float, token: int) -> Tensor:
    """Replace inputs of a decoder, (B, T), by a token with probability `rate`; the first one and padding stay.

    The choice is a function of the batch, so that it does not depend on processes and a resumed run repeats it. The
    same text is in other batches in other epochs.
    """
    generator = torch.Generator().manual_seed(zlib.crc32(inputs.cpu().numpy().tobytes()))
    chosen = (torch.rand(inputs.shape, generator=generator) < rate).to(inputs.device)
    chosen[:, 0] = False
    chosen[:, 1:] &= labels[:, :-1] != IGNORED
    return inputs.masked_fill(chosen, token)
