"""Arguments of a fused attention call besides its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...families import Posterior
from ..mask import AttentionMask
from ..noise import NoiseSeed

# Entries of the attention matrix in memory at once: 2 MB in float32, which stays in the cache.
BLOCK = 2**19


@dataclass(frozen=True)
class Spec:
    """Noise, mask and prior of a fused attention call.

    Attributes:
        scale: of the scores.
        seed: of the noise and the dropout.
        noise: (B, H, 1, S) log noise of each key, instead of noise for each weight.
        prior: prior distribution, for the KL of rows; None where that is not wanted.
        query_mask: (B, T) queries whose attention is summed for each key; None where that is not wanted.
    """

    posterior: Posterior
    scale: float
    seed: NoiseSeed
    mask: AttentionMask
    dropout: float = 0.0
    noise: Tensor | None = None
    query_mask: Tensor | None = None
    prior: Any = None


def row_blocks(rows: int, entries_per_row: int) -> Iterator[slice]:
    """Return blocks of rows, of equal size and about `BLOCK` entries: multiples of 16, for the matrix products."""
    number = max(1, rows * entries_per_row // BLOCK)
    size = max(16, -(-rows // (16 * number)) * 16)
    return (slice(start, min(start + size, rows)) for start in range(0, max(rows, 1), size))
