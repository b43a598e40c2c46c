"""Attention masks, without a T x S matrix where none is given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Additive masks hide a key by the lowest number of their dtype, by -inf, or by -10000, which bfloat16 rounds up.
HIDDEN_BELOW = -9000.0


@dataclass(frozen=True)
class AttentionMask:
    """Keys that the queries of an attention call may attend to.

    Attributes:
        shape: B, H, T, S.
        allowed: boolean, (B or 1, H or 1, T or 1, S); None for all keys.
        causal: query i attends to keys 0 to i; instead of `allowed`.
        bias: (B or 1, H or 1, T or 1, S), added to the scores; it may be learned; None for nothing.
    """

    shape: tuple[int, int, int, int]
    allowed: Tensor | None = None
    causal: bool = False
    bias: Tensor | None = None

    @classmethod
    def read(
        cls,
        mask: Tensor | None,
        shape: tuple[int, int, int, int],
        causal: bool,
        position_bias: Tensor | None = None,
    ) -> AttentionMask:
        """Return the mask that a model passes: boolean or integer, additive, or None.

        Args:
            mask: (B or 1, H or 1, T or 1, at least S): a static cache may have made it too long.
            causal: whether queries attend to no later keys where there is no mask. Query i is then token i: the keys
                of an empty static cache lie behind all queries.
            position_bias: (B or 1, H, T or 1, at least S), added to the scores beside the mask.
        """
        bias = None if position_bias is None else position_bias[..., : shape[3]]
        if mask is None:
            return cls(shape, causal=causal and shape[2] > 1, bias=bias)
        mask = mask[..., : shape[3]]
        if not mask.dtype.is_floating_point:
            return cls(shape, mask.bool(), bias=bias)
        return cls(shape, mask > HIDDEN_BELOW, bias=mask if bias is None else mask + bias)

    def __post_init__(self) -> None:
        if self.causal and self.allowed is not None:
            raise ValueError(
                "causal=True and allowed are two masks: put the causal one into allowed, or leave one out."
            )

    def rows(self, rows: slice, device: torch.device) -> Tensor:
        """Return the mask of some queries, broadcastable to (B, H, R, S)."""
        if self.allowed is not None:
            return self.allowed if self.allowed.shape[2] == 1 else self.allowed[:, :, rows]
        if not self.causal:
            return torch.ones(1, 1, 1, self.shape[3], dtype=torch.bool, device=device)
        key, last = (torch.arange(*ends, device=device) for ends in ((self.shape[3],), (rows.start, rows.stop)))
        return (key <= last[:, None])[None, None]

    def keys(self, query_mask: Tensor) -> Tensor:
        """Return the keys that any of the queries in a mask (B, T) may attend to, (B, H or 1, 1, S)."""
        if self.allowed is not None and self.allowed.shape[2] == 1:
            return self.allowed & query_mask.any(dim=1)[:, None, None, None]
        if self.allowed is not None:
            return (self.allowed & query_mask[:, None, :, None]).any(dim=2, keepdim=True)
        place = torch.arange(self.shape[3], device=query_mask.device)
        order = torch.arange(1, self.shape[2] + 1, device=query_mask.device)
        last = (order * query_mask).amax(dim=1) if self.causal else query_mask.any(dim=1) * self.shape[3]
        return (place < last[:, None])[:, None, None]

    def count_keys(self, device: torch.device) -> Tensor:
        """Return the number of allowed entries in the rows of all heads of each query, (B, T)."""
        batch, heads, queries, keys = self.shape
        if self.allowed is not None:
            number = self.allowed.expand(-1, -1, -1, keys).sum(dim=-1)  # (B or 1, H or 1, T or 1)
            return number.expand(batch, heads, queries).sum(dim=1)
        last = torch.arange(1, queries + 1, device=device).clamp(max=keys)
        return heads * (last if self.causal else torch.full_like(last, keys)).expand(batch, queries)

    def count_queries(self, query_mask: Tensor) -> Tensor:
        """Return the number of queries in a mask (B, T) that may attend to any key, (B, H or 1, 1, 1)."""
        if self.allowed is None:
            return query_mask.sum(dim=1)[:, None, None, None]
        return (self.allowed.any(dim=-1, keepdim=True) & query_mask[:, None, :, None]).sum(dim=2, keepdim=True)
