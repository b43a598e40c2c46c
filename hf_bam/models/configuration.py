"""Config of the recurrent encoder-decoder, and the base class of its parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers import initialization as init

FEEDBACK = ("argmax", "sample", "gumbel", "straight-through")
"""Tokens that scheduled sampling feeds back: the most probable one, a sample, a Gumbel-softmax sample, which is a
weighted mean of all tokens with a gradient, and a sample with the gradient of Gumbel-softmax."""


class RecurrentConfig(PretrainedConfig):
    """Settings of a recurrent encoder-decoder.

    Args:
        vocab_size: tokens of source and target together.
        hidden_size: size of the embeddings and of all states; each direction of the encoder has half of it.
        num_hidden_layers: LSTM layers of the encoder, and of the decoder.
        num_attention_heads: heads of the attention; one in most recurrent models.
        dropout: dropout rate of embeddings, between layers, and before the output layer.
        attention_dropout: dropout rate of the attention weights.
        input_feeding: feed the context vector back: an input of the decoder is the embedding of a token and the
            context vector of the step before. Attention then runs step by step, otherwise once for all steps.
        initializer_factor: standard deviation of the initial weights, which are uniform, times the square root of
            hidden_size.
        scheduled_sampling: probability with which an input of the decoder in training is the model's own prediction
            instead of the target token; 0 is teacher forcing, 1 is free running.
        feedback: token that scheduled sampling feeds back, one of `FEEDBACK`.
        gumbel_temperature: temperature of the Gumbel-softmax feedback; low values approach single tokens.
        initial_state: state with which the decoder starts: `"encoder"`, the final states of the encoder; or `"zero"`,
            so that the decoder knows the source from its attention alone.
        tie_word_embeddings: use one matrix for the embeddings of source and target and for the output layer.
    """

    model_type = "recurrent"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012

    def __init__(
        self,
        vocab_size: int = 8000,
        hidden_size: int = 256,
        num_hidden_layers: int = 1,
        num_attention_heads: int = 1,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        input_feeding: bool = True,
        initializer_factor: float = 1.0,
        scheduled_sampling: float = 0.0,
        feedback: str = "sample",
        gumbel_temperature: float = 1.0,
        initial_state: str = "encoder",
        use_cache: bool = True,
        tie_word_embeddings: bool = True,
        pad_token_id: int = 1,
        eos_token_id: int = 0,
        decoder_start_token_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.input_feeding = input_feeding
        self.initializer_factor = initializer_factor
        self.scheduled_sampling = scheduled_sampling
        self.feedback = feedback
        self.gumbel_temperature = gumbel_temperature
        self.initial_state = initial_state
        self.use_cache = use_cache
        super().__init__(
            **{"is_encoder_decoder": True, **kwargs},
            tie_word_embeddings=tie_word_embeddings,
            pad_token_id=pad_token_id,
            eos_token_id=eos_token_id,
            decoder_start_token_id=pad_token_id if decoder_start_token_id is None else decoder_start_token_id,
        )
        self._check()

    def _check(self) -> None:
        """Raise `ValueError` for sizes and settings that no model can have."""
        if self.hidden_size % 2 or self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"RecurrentConfig.hidden_size={self.hidden_size!r} is not valid; it must be a multiple of 2, for the "
                f"directions of the encoder, and of num_attention_heads={self.num_attention_heads}."
            )
        if not 0 <= self.scheduled_sampling <= 1:
            raise ValueError(
                f"RecurrentConfig.scheduled_sampling={self.scheduled_sampling!r} is not valid; it must be a "
                "probability."
            )
        if self.feedback not in FEEDBACK:
            raise ValueError(
                f"RecurrentConfig.feedback={self.feedback!r} is not valid; it must be one of {', '.join(FEEDBACK)}."
            )
        if self.initial_state not in ("encoder", "zero"):
            raise ValueError(
                f"RecurrentConfig.initial_state={self.initial_state!r} is not valid; it must be 'encoder' or 'zero'."
            )
        if self.gumbel_temperature <= 0:
            raise ValueError(
                f"RecurrentConfig.gumbel_temperature={self.gumbel_temperature!r} is not valid; it must be above 0."
            )


class RecurrentPreTrainedModel(PreTrainedModel):
    """Base class of the recurrent encoder-decoder and its parts."""

    config_class = RecurrentConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        bound = self.config.initializer_factor * (3 / self.config.hidden_size) ** 0.5
        if isinstance(module, (nn.Linear, nn.Embedding, nn.LSTM)):
            for parameter in module.parameters(recurse=False):
                init.uniform_(parameter, -bound, bound)
