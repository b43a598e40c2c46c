"""Adapters of BLOOM and Falcon, whose scores have a bias that grows with the position of the key (ALiBi)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import dropout

from .base import Adapter, unfold_heads, with_bias


class Bloom(Adapter):
    """`BloomAttention`."""

    name = "forward"

    def sample(
        self,
        module: Any,
        hidden_states: Tensor,  # (B, T, H * D)
        residual: Tensor,
        alibi: Tensor,  # (B * H, 1, S)
        attention_mask: Tensor | None,
        layer_past: Any = None,
        output_attentions: bool = False,
        **_: Any,
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = module._reshape(module.query_key_value(hidden_states))  # (B, H, T, D)
        if layer_past is not None:
            key, value = layer_past.update(key, value, module.layer_idx)
        output, weights = self.attend(
            query,
            key,
            value,
            with_bias(attention_mask, unfold_heads(alibi, module.num_heads)),
            dropout=module.attention_dropout.p,
            scaling=module.inv_norm_factor,
            output_attentions=output_attentions,
        )
        projected = module.dense(output.flatten(2))
        return dropout(projected, p=module.hidden_dropout, training=module.training) + residual, weights


class Falcon(Adapter):
    """`FalconAttention`, with ALiBi or with rotary positions; keys and values may be shared by heads."""

    name = "forward"

    def sample(
        self,
        module: Any,
        hidden_states: Tensor,  # (B, T, H * D)
        alibi: Tensor | None,  # (B, H, 1, S)
        attention_mask: Tensor | None,
        layer_past: Any = None,
        output_attentions: bool = False,
        position_embeddings: Any = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor | None]:
        split = module._split_heads(module.query_key_value(hidden_states))  # (B, T, H or fewer, D)
        query, key, value = (states.transpose(1, 2) for states in split)
        if alibi is None:
            from transformers.models.falcon.modeling_falcon import apply_rotary_pos_emb

            query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
        elif module.config._attn_implementation != "sdpa":
            # The mask has the bias already; transformers' eager code adds it once more.
            attention_mask = with_bias(attention_mask, alibi * module.inv_norm_factor)
        if layer_past is not None:
            key, value = layer_past.update(key, value, module.layer_idx)
        output, weights = self.attend(
            query,
            key,
            value,
            attention_mask,
            dropout=0.0 if alibi is None else module.attention_dropout.p,
            scaling=module.inv_norm_factor,
            is_causal=module.is_causal,
            output_attentions=output_attentions,
        )
        return module.dense(output.flatten(2)), weights
