"""What one stochastic attention call is, besides its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ...families import Posterior
from ...priors import PriorDistribution
from ..mask import AttentionMask
from ..noise import NoiseSeed

# Entries of the attention matrix that are held at once: 2 MB in float32, which stays in the cache.
BLOCK = 2**19


@dataclass(frozen=True)
class Spec:
    """How weights are drawn and which keys are seen.

    Attributes:
        scale: of the scores.
        seed: of the noise and the dropout.
        noise: (B, H, 1, S) log noise of each key, instead of noise for each weight.
        prior: for the KL of rows; None where it is not wanted.
        counted: (B, T) which queries count in the attention that keys receive; None when that is not wanted.
    """

    posterior: Posterior
    scale: float
    seed: NoiseSeed
    mask: AttentionMask
    dropout: float = 0.0
    noise: Tensor | None = None
    counted: Tensor | None = None
    prior: PriorDistribution | None = None


def row_blocks(rows: int, entries_per_row: int) -> Iterator[slice]:
    """The rows in blocks of equal size and about `BLOCK` entries, in multiples of 16 rows for the matrix products."""
    number = max(1, rows * entries_per_row // BLOCK)
    size = max(16, -(-rows // (16 * number)) * 16)
    return (slice(start, min(start + size, rows)) for start in range(0, max(rows, 1), size))
