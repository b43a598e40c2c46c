"""Attention that the tokens of one input get, with its standard deviation over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..prediction import Predictor
from ..prediction.batched import repeat_all, sample_seeds
from ..prediction.heads import Head
from ..prediction.inputs import Text
from ..prediction.samplers import mean_mode

MOST_SAMPLES = 16
"""Samples of the attention, whose matrices are kept in memory at once."""
WORD_STARTS = ("▁", "Ġ")


@dataclass(frozen=True)
class TokenWeight:
    """A token of the input.

    Attributes:
        text: the token without the marks of its tokenizer.
        glued: no space stands in front of it.
        mean: mean weight over samples, layers, heads and queries.
        std: standard deviation over samples, mean over layers, heads and queries.
        mean_share: mean, relative to the largest one of the input.
        std_share: standard deviation, relative to the largest one of the input.
    """

    text: str
    glued: bool
    mean: float
    std: float
    mean_share: float
    std_share: float


@torch.no_grad()
def token_weights(predictor: Predictor, item: Text) -> list[TokenWeight]:
    """Return the tokens of an input with the attention that they get from all queries; special tokens are left out.

    In an encoder-decoder model the queries are those of the decoder, which reads the text that the model generates.
    """
    head = predictor.head()
    inputs, _, encoding = head.encode([item])
    attentions = _attentions(head, inputs, head.seeds([item]))
    if not attentions:
        return []
    mean = torch.stack([own.mean(dim=(0, 1, 2)) for own in attentions]).mean(dim=0)  # (S,)
    spread = torch.stack([own.std(dim=0, correction=min(1, len(own) - 1)).mean(dim=(0, 1)) for own in attentions])
    ids = encoding["input_ids"][0].tolist()
    special = set(predictor.tokenizer.all_special_ids) - {predictor.tokenizer.unk_token_id}  # it is a part of the text
    kept = [index for index, token in enumerate(ids) if token not in special]
    names = predictor.tokenizer.convert_ids_to_tokens([ids[index] for index in kept])
    columns = mean[kept].tolist(), spread.mean(dim=0)[kept].tolist()
    most = [max(column, default=0) or 1.0 for column in columns]
    return [
        TokenWeight(text, glued, weight, std, weight / most[0], std / most[1])
        for (text, glued), weight, std in zip(shown_tokens(names), *columns, strict=True)
    ]


def _attentions(head: Head, inputs: Any, seeds: Tensor) -> list[Tensor]:
    """Return the weights of each layer in all samples, (samples, H, T, S) each."""
    number = min(head.num_samples, head.sampler.limit or MOST_SAMPLES, MOST_SAMPLES)
    model = head.sampler.model
    if model.config.is_encoder_decoder:
        with mean_mode(model):
            ids = model.generate(**inputs, **head.settings.generation)
        inputs = {**inputs, "decoder_input_ids": ids[:, :-1]}
    with head.sampler.noise(sample_seeds(seeds, torch.arange(number))):
        output = model(**repeat_all(inputs, number), output_attentions=True)
    found = output.get("cross_attentions") or output.get("attentions") or ()
    return [layer.float() for layer in found]


def shown_tokens(names: Sequence[str]) -> list[tuple[str, bool]]:
    """Return tokens without the marks of a tokenizer, and whether each is glued to the one before it."""
    marks_starts = any(name.startswith(WORD_STARTS) for name in names)
    shown = []
    for name in names:
        starts = name.startswith(WORD_STARTS)
        glued = name.startswith("##") or (marks_starts and not starts)
        shown.append((name.removeprefix("##") if not starts else name[1:], glued))
    return shown
