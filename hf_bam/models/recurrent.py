"""Recurrent encoder-decoder with attention, as a transformers model (Bahdanau et al. 2015, Luong et al. 2015)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import GenerationMixin
from transformers.modeling_outputs import Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import can_return_tuple

from .cache import RecurrentCache
from .configuration import RecurrentConfig, RecurrentPreTrainedModel
from .decoder import Feedback, RecurrentDecoder
from .embedding import ScaledEmbedding
from .encoder import RecurrentEncoder, RecurrentEncoderOutput
from .feedback import mixed_inputs

IGNORED = -100
GENERATION_INPUTS = (
    "attention_mask",
    "decoder_attention_mask",
    "encoder_outputs",
    "use_cache",
    "output_hidden_states",
    "output_attentions",
)
"""Arguments of `generate` that every step of it passes on."""


def shift_right(labels: Tensor, pad: int, start: int) -> Tensor:
    """Return the inputs of the decoder for labels (B, T): the start token, then all labels but the last."""
    shifted = labels.roll(1, dims=1)
    shifted[:, 0] = start
    return shifted.masked_fill(shifted == IGNORED, pad)


class RecurrentModel(RecurrentPreTrainedModel):
    """Encoder and decoder, without the output layer."""

    _tied_weights_keys = {"encoder.embed_tokens.weight": "decoder.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.encoder = RecurrentEncoder(config)
        self.decoder = RecurrentDecoder(config)
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> RecurrentEncoder:
        return self.encoder

    def get_decoder(self) -> RecurrentDecoder:
        return self.decoder

    def get_input_embeddings(self) -> ScaledEmbedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: ScaledEmbedding) -> None:
        self.encoder.embed_tokens = value
        if self.config.tie_word_embeddings:
            self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | tuple[Tensor, ...] | None = None,
        past_key_values: RecurrentCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        feedback: Feedback | None = None,
    ) -> Seq2SeqModelOutput:
        """Return the outputs of the decoder, (B, T, D); the arguments are those of its parts."""
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            raise ValueError("The decoder has no input; give decoder_input_ids, decoder_inputs_embeds or labels.")
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids, attention_mask, inputs_embeds, output_hidden_states, return_dict=True
            )
        elif isinstance(encoder_outputs, tuple):
            encoder_outputs = RecurrentEncoderOutput(*encoder_outputs)
        source: Any = encoder_outputs
        decoded = self.decoder(
            decoder_input_ids,
            decoder_attention_mask,
            source,
            attention_mask,
            past_key_values,
            decoder_inputs_embeds,
            self.config.use_cache if use_cache is None else use_cache,
            output_hidden_states,
            self.config.output_attentions if output_attentions is None else output_attentions,
            feedback,
            return_dict=True,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoded.last_hidden_state,
            past_key_values=decoded.past_key_values,
            decoder_hidden_states=decoded.hidden_states,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=source.last_hidden_state,
            encoder_hidden_states=source.hidden_states,
        )


class RecurrentForConditionalGeneration(RecurrentPreTrainedModel, GenerationMixin):
    """Recurrent encoder-decoder with attention, for translation and other conditional generation.

    With labels the decoder reads the target shifted to the right (teacher forcing), and in training its own
    predictions in the place of some tokens if `scheduled_sampling` is above 0. `generate` decodes greedily, by
    sampling or with beams; its cache is the state of the LSTM.
    """

    _tied_weights_keys = {  # noqa: RUF012
        "lm_head.weight": "model.decoder.embed_tokens.weight",
        "model.encoder.embed_tokens.weight": "model.decoder.embed_tokens.weight",
    }
    accepts_loss_kwargs = False

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.model = RecurrentModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> RecurrentEncoder:
        return self.model.encoder

    def get_decoder(self) -> RecurrentDecoder:
        return self.model.decoder

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.lm_head = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | tuple[Tensor, ...] | None = None,
        past_key_values: RecurrentCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> Seq2SeqLMOutput:
        """Return the logits (B, T, V), and with labels the mean cross-entropy of the target tokens.

        Args:
            input_ids: (B, S) source; or `inputs_embeds`, (B, S, D), or `encoder_outputs` of `get_encoder()`.
            attention_mask: (B, S), 0 for padding.
            decoder_input_ids: (B, T) target before each step; or `decoder_inputs_embeds`, (B, T, D). By default the
                labels, shifted to the right.
            decoder_attention_mask: (B, at least T), 0 for padding. Padding at the end needs none.
            labels: (B, T) target; -100 where the loss ignores it.
            output_attentions: return the alignment, `cross_attentions[0]`, (B, H, T, S).
        """
        feedback: Feedback | None = None
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            if self.training and self.config.scheduled_sampling > 0:
                feedback = self.mixed_inputs
        outputs = self.model(
            input_ids,
            attention_mask,
            decoder_input_ids,
            decoder_attention_mask,
            encoder_outputs,
            past_key_values,
            inputs_embeds,
            decoder_inputs_embeds,
            use_cache,
            output_hidden_states,
            output_attentions,
            feedback,
            return_dict=True,
        )
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            exact = logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32))
            loss = cross_entropy(exact, labels.flatten(), ignore_index=IGNORED)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
        )

    def mixed_inputs(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the inputs of a step of scheduled sampling, from the output of the step before, (B, 1, D) both."""
        return mixed_inputs(self.config, self.model.decoder.embed_tokens, self.lm_head(output), target)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return shift_right(labels, self.config.pad_token_id, self.config.decoder_start_token_id)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, past_key_values: RecurrentCache | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the inputs of a step of `generate`: the tokens that are not in the state yet."""
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        given = {name: kwargs[name] for name in GENERATION_INPUTS if name in kwargs}
        return {"decoder_input_ids": input_ids[:, past:], "past_key_values": past_key_values, **given}

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the first forward makes a cache of its own
