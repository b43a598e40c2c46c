"""Adapters of GPT-J and GPT-Neo, which compute attention in a method of their own, in single precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .base import Adapter, with_bias


class GPTJ(Adapter):
    """`GPTJAttention`."""

    name = "_attn"

    def sample(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        return self.attend_precisely(query, key, value, attention_mask, scaling=1.0 / module.scale_attn)

    def attend_precisely(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, H, T, D) in the precision of the values, and the weights, if they were built."""
        module: Any = self.module
        options = {"dropout": module.attn_dropout.p, "scaling": scaling}
        output, weights = self.attend(in_single(query), in_single(key), in_single(value), mask, **options)
        return output.transpose(1, 2).to(value.dtype), weights


class GPTNeo(GPTJ):
    """`GPTNeoSelfAttention`: scores are not scaled, and every other layer attends to a window of the last tokens."""

    def sample(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        queries, keys = query.shape[-2], key.shape[-2]
        window = module.bias[:, :, keys - queries : keys, :keys]  # (1, 1, T, S), boolean
        hidden = torch.zeros_like(window, dtype=query.dtype).masked_fill(~window, torch.finfo(query.dtype).min)
        return self.attend_precisely(query, key, value, with_bias(attention_mask, hidden), scaling=1.0)


def in_single(x: Tensor) -> Tensor:
    """Return a tensor in single precision, or in its own if that is higher."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
