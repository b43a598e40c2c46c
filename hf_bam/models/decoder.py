"""LSTM decoder with attention over the encoder's states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.utils import can_return_tuple

from .attention import RecurrentAttention
from .cache import RecurrentCache, State
from .configuration import RecurrentConfig, RecurrentPreTrainedModel
from .embedding import ScaledEmbedding
from .encoder import RecurrentEncoderOutput, recur

Feedback = Callable[[Tensor, Tensor], Tensor]
"""Inputs of a step, from the output of the step before and the embeddings of the target, (B, 1, D) each."""


class RecurrentDecoder(RecurrentPreTrainedModel):
    """LSTM over the target. At every step

        s_t = LSTM([y_(t-1), c_(t-1)], s_(t-1)),  c_t = attention(s_t, memory),  o_t = tanh(W [s_t, c_t])

    with the embedding `y` of a token, the context vector `c`, and the output `o` that the output layer reads. Without
    input feeding the LSTM reads `y` alone.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.embed_tokens = ScaledEmbedding(config.vocab_size, width)
        sizes = [width * (1 + config.input_feeding), *[width] * (config.num_hidden_layers - 1)]
        self.layers = nn.ModuleList(nn.LSTM(size, width, batch_first=True) for size in sizes)
        self.cross_attn = RecurrentAttention(config)
        self.readout = nn.Linear(2 * width, width, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: RecurrentCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        feedback: Feedback | None = None,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Return the outputs `o`, (B, T, D), and on request the cache, the embeddings and the states of every layer,
        (B, T, D) each, and the attention weights, (B, H, T, S).

        Args:
            input_ids: (B, T) tokens of the target so far; or `inputs_embeds`, (B, T, D).
            attention_mask: (B, at least T), 0 for padding, at which the state stays as it is; None: no padding before
                the end of the target.
            encoder_outputs: memory and final states of the source; not read with a cache that is not empty.
            encoder_attention_mask: (B, S), 0 for padding.
            feedback: scheduled sampling: changes the inputs of each step but the first.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        embeds: Tensor = inputs_embeds
        cache = past_key_values if past_key_values is not None or not use_cache else RecurrentCache()
        state, memory = self.start(encoder_outputs, cache)
        mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()[:, None, None]
        length = embeds.shape[1]
        kept = None if attention_mask is None or attention_mask.all() else attention_mask[:, -length:].bool()

        by_step = self.config.input_feeding or feedback is not None or kept is not None
        size = 1 if by_step else length
        steps: list[tuple[Tensor, Tensor]] = []
        hidden: list[list[Tensor]] = []
        weights: list[Any] = []
        for start in range(0, length, size):
            inputs = embeds[:, start : start + size]
            if feedback is not None and steps:
                inputs = feedback(self.output(*steps[-1]), inputs)
            hidden.append([inputs])
            states, layers = self.recur(self.dropout(inputs), state, hidden[-1])
            first_query = start if size < length else None
            context, own = self.cross_attn(states, *memory, mask, bool(output_attentions), first_query)
            steps.append((states, context))
            weights.append(own)
            after = State(layers, context[:, -1:])
            state = after if kept is None else hold(state, after, kept[:, start])

        if cache is not None:
            cache.store(state, memory, length)
        joined = tuple(torch.cat(layer, dim=1) for layer in zip(*hidden, strict=True))
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.output(*(torch.cat(own, dim=1) for own in zip(*steps, strict=True))),
            past_key_values=cache,
            hidden_states=joined if output_hidden_states else None,
            cross_attentions=(torch.cat(weights, dim=2),) if output_attentions else None,
        )

    def output(self, states: Tensor, context: Tensor) -> Tensor:
        """Return `o` from decoder states and context vectors, (B, T, D) each."""
        return self.dropout(torch.tanh(self.readout(torch.cat([states, context], dim=-1))))

    def start(
        self, encoder_outputs: RecurrentEncoderOutput | None, cache: RecurrentCache | None
    ) -> tuple[State, tuple[Tensor, Tensor]]:
        """Return the state before the first step, and the keys and values of the source."""
        if cache is not None and cache.state is not None and cache.memory is not None:
            return cache.state, cache.memory
        if self.config.initial_state == "zero" and encoder_outputs is not None:
            memory: Any = encoder_outputs.last_hidden_state
            zero = torch.zeros_like(memory[:, 0])
            return State(((zero[None], zero[None]),) * len(self.layers), zero[:, None]), self.cross_attn.project(
                memory
            )
        if encoder_outputs is None or encoder_outputs.get("hidden_state") is None:
            raise ValueError(
                "encoder_outputs has no hidden_state and cell_state, with which the decoder starts; give the output "
                "of model.get_encoder()."
            )
        source: Any = encoder_outputs
        finals = zip(source.hidden_state.unbind(dim=1), source.cell_state.unbind(dim=1), strict=True)
        layers = tuple((hidden[None].contiguous(), cell[None].contiguous()) for hidden, cell in finals)
        context = torch.zeros_like(source.hidden_state[:, :1])
        return State(layers, context), self.cross_attn.project(source.last_hidden_state)

    def recur(
        self, inputs: Tensor, state: State, hidden: list[Tensor]
    ) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
        """Return the decoder states after some inputs, (B, T, D), and the last state of each layer.

        The states of all layers are added to `hidden`.
        """
        if self.config.input_feeding:
            inputs = torch.cat([inputs, state.context], dim=-1)
        layers = []
        for number, (lstm, own) in enumerate(zip(self.layers, state.layers, strict=True)):
            inputs, own = recur(lstm, self.dropout(inputs) if number else inputs, own)
            layers.append(own)
            hidden.append(inputs)
        return inputs, tuple(layers)


def hold(before: State, after: State, kept: Tensor) -> State:
    """Return the state after a step, and that before it in the rows (B,) whose token is padding."""
    layers = tuple(
        tuple(torch.where(kept[:, None], new, old) for old, new in zip(*pair, strict=True))
        for pair in zip(before.layers, after.layers, strict=True)
    )
    return State(layers, torch.where(kept[:, None, None], after.context, before.context))  # type: ignore[arg-type]
