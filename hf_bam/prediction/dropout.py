"""Dropout whose masks do not depend on the rest of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..attention.interface import for_every_head
from ..attention.noise import derive, dropout_factor


class SeededDropout(TorchFunctionMode):
    """Context in which the masks of dropout are a function of the seed of a row and of a position in it.

    torch draws them from one generator for the whole batch and for all threads. The context applies to its thread.

    Args:
        rows: (N,) int64, a seed for each of N equal parts of a batch.
    """

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = rows
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return self.dropout(*args, **kwargs)
        if func is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            return self.attention(*args, **kwargs)
        return func(*args, **kwargs)

    def dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        """Replace `torch.nn.functional.dropout`."""
        return x * self.factor(x.shape, p, x.device).to(x.dtype) if training and p > 0 else x

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Replace `torch.nn.functional.scaled_dot_product_attention`."""
        if enable_gqa:
            key, value = (for_every_head(x, query.shape[1]) for x in (key, value))
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return self.dropout(scores.softmax(dim=-1), dropout_p) @ value

    def factor(self, shape: torch.Size, p: float, device: torch.device) -> Tensor:
        """Return factors: 0 with probability `p`, else 1 / (1 - p); the first dimension is that of the rows."""
        seeds = derive(self.rows.to(device), torch.tensor(self.calls, device=device))
        self.calls += 1
        parts = shape[0] // len(seeds) if shape[0] % len(seeds) == 0 else shape[0]
        seeds = derive(seeds[: shape[0] // parts, None], torch.arange(parts, device=device)).flatten()
        for size in shape[1:-1]:
            seeds = derive(seeds[..., None], torch.arange(size, device=device))
        return dropout_factor(p, seeds[..., None].view(torch.int32), shape[-1])
