"""Noise as a function of a seed and the position of a weight, computed anew wherever it is needed.

A row of a head has two 32 bit keys, which follow from the seed; row keys and the number of a key give 32 random bits
by a hash of three multiplications. `kernel/functions.h` has the same hash.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..families import Posterior

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
_KEY_STEP = 0x9E3779B9


def new_seed() -> int:
    """Return a seed from the global generator of the CPU."""
    return int(draw_seed())


def draw_seed() -> Tensor:
    """Return a seed for one attention call from the global generator of the CPU, 0-dimensional.

    Gradient checkpointing restores the global generator, and so a layer that runs again gets its noise again. A
    compiled model draws a new seed in every step, because the operation is part of its graph.
    """
    return torch.randint(2**63 - 1, (), device="cpu")


def mix(x: Tensor) -> Tensor:
    """Return the finaliser of SplitMix64: every bit of the result depends on every bit of the argument."""
    x = (x ^ _shift64(x, 30)) * _FIRST
    x = (x ^ _shift64(x, 27)) * _SECOND
    return x ^ _shift64(x, 31)


def _shift64(x: Tensor, bits: int) -> Tensor:
    """Shift to the right logically; torch's own repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def derive(seeds: Tensor, numbers: Tensor) -> Tensor:
    """Return further seeds from seeds and whole numbers, int64 both, which broadcast against each other."""
    return mix(mix(seeds) + (numbers + 1) * _GOLDEN)


@dataclass(frozen=True)
class NoiseSeed:
    """Seed of the noise of one attention call: the noise is a function of it and of the position of a weight.

    Attributes:
        call: the seed of the call, a number or 0-dimensional on the CPU.
        rows: (B,) int64, a seed for every example, so that its noise does not depend on its index in the batch; None:
            the index is part of the seed.
        first_query, first_key: (B,) int64, the positions of the first query and key in the text; None: 0.
    """

    call: int | Tensor
    rows: Tensor | None = None
    first_query: Tensor | None = None
    first_key: Tensor | None = None

    def row_keys(self, batch: int, heads: int, queries: int, device: torch.device | str = "cpu") -> Tensor:
        """Return two keys for every row of every head, (B, H, T, 2) in int32."""
        call = torch.as_tensor(self.call, device=device)
        if self.rows is None:
            states = derive(call, torch.arange(batch * heads, device=device)).view(batch, heads)
        else:
            states = derive((call + self.rows)[:, None], torch.arange(heads, device=device))
        query = torch.arange(1, queries + 1, device=device).expand(batch, -1)  # (B, T)
        if self.first_query is not None:
            query = query + self.first_query[:, None]
        keys = mix(states[:, :, None] + query[:, None] * _GOLDEN)[..., None].view(torch.int32)
        if self.first_key is None:
            return keys
        start = (self.first_key * _KEY_STEP).to(torch.int32)[:, None, None]
        return torch.stack([keys[..., 0] + start, keys[..., 1]], dim=-1)

    def for_keys(self) -> NoiseSeed:
        """Return the seed of noise that all queries share."""
        return NoiseSeed(self.call, self.rows, None, self.first_key)


def _int32(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shift to the right logically; torch's own repeats the sign."""
    return (x >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def _round(x: Tensor, factor: int, bits: int) -> Tensor:
    """Multiply and mix, in place."""
    x.mul_(_int32(factor))
    return x.bitwise_xor_(_shift(x, bits))


def random_bits(keys: Tensor, count: int) -> Tensor:
    """Return 32 random bits for each of `count` keys.

    Args:
        keys: (..., 2) of [`NoiseSeed.row_keys`][hf_bam.attention.noise.NoiseSeed.row_keys].

    Returns:
        (..., count) in int32.
    """
    steps = (torch.arange(count, device=keys.device) * _KEY_STEP).to(torch.int32)
    x = keys[..., :1] + steps
    x.bitwise_xor_(_shift(x, 17))
    _round(x, 0xED5AD4BB, 11).add_(keys[..., 1:])
    return _round(_round(x, 0xAC4C1B51, 15), 0x31848BAB, 14)


def more_bits(bits: Tensor) -> Tensor:
    """Return further random bits from random bits, for the dropout of the same weights."""
    return _round(_round(bits.clone(), 0x7FEB352D, 15), 0x846CA68B, 16)


def uniform(bits: Tensor) -> Tensor:
    """Return uniform numbers in (0, 1), float32: fine near 0, where Weibull noise is steep, and never 1."""
    u = (_shift(bits, 1).to(torch.float32) + 0.5) * 2.0**-31
    return u.clamp_(max=1 - 2.0**-24)


def log_noise(posterior: Posterior, keys: Tensor, count: int) -> Tensor:
    """Return samples of ``log z``, (..., count) for row keys (..., 2)."""
    return posterior.quantile(uniform(random_bits(keys, count)))


def dropout_factor(p: float, keys: Tensor, count: int) -> Tensor:
    """Return 0 with probability `p`, else 1 / (1 - p), (..., count) for row keys (..., 2)."""
    kept = uniform(more_bits(random_bits(keys, count))) >= p
    return kept.to(torch.float32) / (1 - p)
