"""Adapter of MPNet, whose layers share a learned bias for relative positions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .base import Adapter, split_heads, with_bias


class MPNet(Adapter):
    """`MPNetSelfAttention`."""

    name = "forward"

    def sample(
        self,
        module: Any,
        hidden_states: Tensor,  # (B, T, H * D)
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,  # (B, H, T, T)
        output_attentions: bool = False,
        **_: Any,
    ) -> tuple[Tensor | None, ...]:
        projections = (module.q, module.k, module.v)
        query, key, value = (split_heads(own(hidden_states), module.num_attention_heads) for own in projections)
        mask = with_bias(attention_mask, position_bias)
        output, weights = self.attend(
            query, key, value, mask, dropout=module.dropout.p, output_attentions=output_attentions
        )
        projected = module.o(output.flatten(2))
        return (projected, weights) if output_attentions else (projected,)
