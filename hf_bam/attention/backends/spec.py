"""Arguments of a fused attention call besides its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ...families import Posterior
from ..mask import AttentionMask
from ..noise import NoiseSeed

# Entries of the attention matrix in memory at once: 2 MB in float32, which stays in the cache.
BLOCK = 2**19


class Parts(NamedTuple):
    """Results of a fused attention call; None where they were not asked for.

    Attributes:
        output: (B, H, T, D_v).
        kl: (B, H, T) KL of each row.
        received: (B, H, S) soft attention of each key, summed over the queries of `Spec.query_mask`.
        weights: (B, H, T, S) sampled weights.
    """

    output: Tensor
    kl: Tensor | None = None
    received: Tensor | None = None
    weights: Tensor | None = None


@dataclass(frozen=True)
class Spec:
    """Noise, mask and prior of a fused attention call.

    Attributes:
        scale: of the scores.
        seed: of the noise and the dropout.
        noise: (B, H, 1, S) log noise of each key, instead of noise for each weight.
        prior: prior distribution, for the KL of rows; None where that is not wanted.
        query_mask: (B, T) queries whose attention is summed for each key; None where that is not wanted.
        softcap: bound of the scores, by a tanh.
        wants_weights: whether the weights are asked for.
        groups: number of heads that share their keys and values.
    """

    posterior: Posterior
    scale: float
    seed: NoiseSeed
    mask: AttentionMask
    dropout: float = 0.0
    noise: Tensor | None = None
    query_mask: Tensor | None = None
    prior: Any = None
    softcap: float | None = None
    wants_weights: bool = False
    groups: int = 1


def row_blocks(rows: int, entries_per_row: int) -> list[slice]:
    """Return blocks of rows, of equal size and about `BLOCK` entries: multiples of 16, for the matrix products."""
    number = max(1, rows * entries_per_row // BLOCK)
    size = max(16, -(-rows // (16 * number)) * 16)
    return [slice(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
