"""Models of the translation task that are trained from scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import MarianConfig, MarianMTModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..models import RecurrentConfig, RecurrentForConditionalGeneration

Sizes = Callable[[int, int, int, int], dict[str, Any]]
"""Settings of a config, from hidden size, number of layers, number of heads, and length of the longest text."""


def marian_sizes(width: int, layers: int, heads: int, length: int) -> dict[str, Any]:
    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * width}
    both = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()}
    return {**both, "d_model": width, "scale_embedding": True, "max_position_embeddings": length}


def recurrent_sizes(width: int, layers: int, heads: int, length: int) -> dict[str, Any]:
    return {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}


@dataclass(frozen=True)
class Scratch:
    """Kind of model that is made from sizes.

    Attributes:
        layers, heads: usual numbers of layers of the encoder, and of the decoder, and of attention heads.
    """

    config: type[PretrainedConfig]
    model: type[PreTrainedModel]
    sizes: Sizes
    layers: int
    heads: int

    def build(
        self,
        tokenizer: PreTrainedTokenizerBase,
        width: int,
        layers: int | None,
        heads: int | None,
        settings: dict[str, Any],
    ) -> PreTrainedModel:
        """Return a model with random weights for the vocabulary of a tokenizer; None is the usual number.

        Args:
            settings: further keywords of the config, which take precedence.
        """
        heads = self.heads if heads is None else heads
        check_width(width, heads)
        special = {
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.pad_token_id,
        }
        layers = self.layers if layers is None else layers
        sizes = self.sizes(width, layers, heads, tokenizer.model_max_length)
        model = self.model(self.config(vocab_size=len(tokenizer), **{**sizes, **special, **settings}))
        # The start token is an input of the decoder and never an output.
        search = {"bad_words_ids": [[tokenizer.pad_token_id]], "forced_eos_token_id": tokenizer.eos_token_id}
        model.generation_config.update(**search)
        return model


def check_width(width: int, heads: int) -> None:
    """Raise `ValueError` for a hidden size that cannot be divided into heads of even size."""
    if width % (2 * heads):
        raise ValueError(f"width={width} is not a multiple of 2 * heads={2 * heads}; it must be.")


SCRATCH = {
    "scratch": Scratch(MarianConfig, MarianMTModel, marian_sizes, layers=3, heads=4),
    "recurrent": Scratch(RecurrentConfig, RecurrentForConditionalGeneration, recurrent_sizes, layers=1, heads=1),
}
"""Models from scratch by name: a small Marian, and a recurrent encoder-decoder with attention."""
