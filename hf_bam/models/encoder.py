"""Bidirectional LSTM encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from transformers.utils import ModelOutput, can_return_tuple

from .configuration import RecurrentConfig, RecurrentPreTrainedModel
from .embedding import ScaledEmbedding


@dataclass
class RecurrentEncoderOutput(ModelOutput):
    """Output of the encoder.

    Attributes:
        last_hidden_state: (B, S, D) states of the last layer, those of both directions side by side; 0 for padding.
        hidden_state, cell_state: (B, L, D) final states of each layer, with which the decoder starts.
        hidden_states: embeddings and states of every layer, (B, S, D) each, if they are asked for.
    """

    last_hidden_state: Tensor | None = None
    hidden_state: Tensor | None = None
    cell_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class RecurrentEncoder(RecurrentPreTrainedModel):
    """Bidirectional LSTM over the source. Padding has no effect, wherever it is."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = ScaledEmbedding(config.vocab_size, width)
        self.layers = nn.ModuleList(
            nn.LSTM(width, width // 2, batch_first=True, bidirectional=True) for _ in range(config.num_hidden_layers)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> RecurrentEncoderOutput:
        """Return the states of the source.

        Args:
            input_ids: (B, S) tokens; or `inputs_embeds`, (B, S, D).
            attention_mask: (B, S), 0 for padding.
            output_attentions: without effect, because the encoder has no attention.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        states: Tensor = inputs_embeds
        order, lengths = packing(attention_mask)
        if order is not None:
            states = states.gather(1, order[..., None].expand_as(states))
        every, hidden, cell = [states], list[Tensor](), list[Tensor]()
        for lstm in self.layers:
            states, final = run(lstm, self.dropout(states), lengths)
            every.append(states)
            for own, both in zip((hidden, cell), final, strict=True):
                own.append(both.transpose(0, 1).flatten(start_dim=1))  # (2, B, D / 2) to (B, D)
        if order is not None:
            back = order.argsort(dim=1)[..., None].expand_as(states)
            every = [own.gather(1, back) for own in every]
        return RecurrentEncoderOutput(
            last_hidden_state=every[-1],
            hidden_state=torch.stack(hidden, dim=1),
            cell_state=torch.stack(cell, dim=1),
            hidden_states=tuple(every) if output_hidden_states else None,
        )


def packing(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the order (B, S) that puts padding last, and the lengths (B,) of the texts; None where it is not needed.

    A text without tokens has length 1: an LSTM needs a step.
    """
    if mask is None or bool(mask.all()):
        return None, None
    mask = mask.bool()
    last = not bool((mask[:, 1:] & ~mask[:, :-1]).any())
    order = None if last else mask.long().argsort(dim=1, descending=True, stable=True)
    return order, mask.sum(dim=1).clamp(min=1).cpu()


def run(lstm: nn.Module, states: Tensor, lengths: Tensor | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the outputs of an LSTM, (B, S, D), and its final hidden and cell states, each at the end of its text."""
    if lengths is None:
        return recur(lstm, states)
    packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = recur(lstm, packed)
    return pad_packed_sequence(outputs, batch_first=True, total_length=states.shape[1])[0], final


def recur(lstm: Any, inputs: Tensor | PackedSequence, *state: tuple[Tensor, Tensor]) -> Any:
    """Return the outputs and the last state of an LSTM, in the precision of its weights.

    Autocast is for the matrices of the model: a recurrence adds up its errors, and a CPU without instructions for
    bfloat16 has no such LSTM.
    """
    dtype = lstm.weight_ih_l0.dtype
    with torch.autocast(lstm.weight_ih_l0.device.type, enabled=False):
        return lstm(inputs.to(dtype), *(tuple(part.to(dtype) for part in own) for own in state))
