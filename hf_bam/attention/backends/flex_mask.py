"""Block masks of FlexAttention from attention masks, without a T x S matrix where none is given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import pad

from ..mask import AttentionMask

SIZE = 128
"""Rows and keys of a block."""


def block_mask(mask: AttentionMask, device: torch.device) -> BlockMask:
    """Return the block mask of an attention call."""
    queries, keys = mask.shape[2:]
    if mask.allowed is not None:
        return from_allowed(mask.allowed, queries, keys)
    if mask.causal:
        rows, columns = (torch.arange(-(-n // SIZE), device=device) for n in (queries, keys))
        first_row, last_row = rows[:, None] * SIZE, (rows[:, None] + 1) * SIZE - 1
        some, full = columns * SIZE <= last_row, (columns + 1) * SIZE - 1 <= first_row
        return build(some[None, None], full[None, None], queries, keys, lambda b, h, i, j: j <= i)
    return from_allowed(torch.ones(1, 1, 1, keys, dtype=torch.bool, device=device), queries, keys)


def transposed_mask(mask: AttentionMask, query_mask: Tensor) -> BlockMask:
    """Return the block mask in which keys ask and the queries of a mask, (B, T), are asked."""
    queries, keys = mask.shape[2:]
    counted = query_mask.bool()
    if mask.causal:
        rows, columns = (torch.arange(-(-n // SIZE), device=counted.device) for n in (keys, queries))
        some = (columns + 1) * SIZE - 1 >= rows[:, None] * SIZE
        none = torch.zeros_like(some)
        return build(some[None, None], none[None, None], keys, queries, lambda b, h, i, j: (j >= i) & counted[b, j])
    allowed = mask.rows(slice(0, queries), counted.device).transpose(2, 3)  # (B or 1, H or 1, S, T or 1)
    return from_allowed(allowed & counted[:, None, None], keys, queries)


def from_allowed(allowed: Tensor, queries: int, keys: int) -> BlockMask:
    """Return the block mask of a boolean one, (B or 1, H or 1, T or 1, S)."""
    batch, heads, rows, _ = allowed.shape
    missing = (0, -keys % SIZE, 0, 0 if rows == 1 else -queries % SIZE)
    shape = (batch, heads, -(-rows // SIZE), 1 if rows == 1 else SIZE, -(-keys // SIZE), SIZE)
    some, full = (
        reduced.expand(batch, heads, -(-queries // SIZE), shape[4])
        for reduced in (
            pad(allowed, missing).view(shape).any(dim=5).any(dim=3),
            pad(allowed, missing, value=True).view(shape).all(dim=5).all(dim=3),
        )
    )

    def mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        own_b, own_h, own_i = (x * (n > 1) for x, n in ((b, batch), (h, heads), (i, rows)))
        return allowed[own_b, own_h, own_i, j]

    return build(some, full, queries, keys, mod)


def build(some: Tensor, full: Tensor, queries: int, keys: int, mod: Any) -> BlockMask:
    """Return a block mask from the blocks, (B or 1, H or 1, T / 128, S / 128), with some and with all entries."""
    partial, whole = some & ~full, some & full
    lists = [
        (x.sum(dim=-1, dtype=torch.int32), x.int().argsort(dim=-1, descending=True, stable=True).int())
        for x in (partial, whole)
    ]
    (number, indices), (full_number, full_indices) = lists
    return BlockMask.from_kv_blocks(
        number, indices, full_number, full_indices, BLOCK_SIZE=SIZE, mask_mod=mod, seq_lengths=(queries, keys)
    )
