"""Noise as a function of a seed and the place of a weight, computed anew wherever it is needed.

A row of a head has two 32 bit keys, which follow from the seed; row keys and the number of a key give 32 random bits
by a hash of three multiplications. `kernel/functions.h` has the same hash.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..counter import mix
from ..distributions import Posterior

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64


def new_seed(generator: torch.Generator | None = None) -> int:
    """A seed for one attention call, from the global generator of the CPU unless another is given.

    Gradient checkpointing restores the global generator, and so a layer that runs again gets its noise again.
    """
    return int(torch.randint(2**63 - 1, (), generator=generator, device="cpu"))


def row_keys(seed: int, heads: int, rows: int, device: torch.device | str = "cpu") -> Tensor:
    """Two keys for every row of every head (the batch counts as further heads), (heads, rows, 2) in int32."""
    head, row = (torch.arange(1, size + 1, device=device) * _GOLDEN for size in (heads, rows))
    state = mix(mix(torch.tensor(seed, device=device)) + head)
    return mix(state[:, None] + row)[..., None].view(torch.int32)


def _int32(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right; torch's own repeats the sign."""
    return (x >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def _round(x: Tensor, factor: int, bits: int) -> Tensor:
    """Multiplies and folds, in place."""
    x.mul_(_int32(factor))
    return x.bitwise_xor_(_shift(x, bits))


def random_bits(keys: Tensor, count: int) -> Tensor:
    """32 random bits for each of `count` keys.

    Args:
        keys: (..., 2) of [`row_keys`][hf_bam.fused.noise.row_keys].

    Returns:
        (..., count) in int32.
    """
    steps = (torch.arange(count, device=keys.device) * 0x9E3779B9).to(torch.int32)
    x = keys[..., :1] + steps
    x.bitwise_xor_(_shift(x, 17))
    _round(x, 0xED5AD4BB, 11).add_(keys[..., 1:])
    return _round(_round(x, 0xAC4C1B51, 15), 0x31848BAB, 14)


def more_bits(bits: Tensor) -> Tensor:
    """Further random bits from random bits, for the dropout of the same weights."""
    return _round(_round(bits.clone(), 0x7FEB352D, 15), 0x846CA68B, 16)


def uniform(bits: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), float32: fine near 0, where the noise of a Weibull law is steep, and never 1."""
    u = (_shift(bits, 1).to(torch.float32) + 0.5) * 2.0**-31
    return u.clamp_(max=1 - 2.0**-24)


def log_noise(posterior: Posterior, keys: Tensor, count: int) -> Tensor:
    """Draws of ``log z``, (..., count) for row keys (..., 2)."""
    return posterior.quantile(uniform(random_bits(keys, count)))


def dropout_factor(p: float, keys: Tensor, count: int) -> Tensor:
    """0 with probability `p`, else 1 / (1 - p), (..., count) for row keys (..., 2)."""
    kept = uniform(more_bits(random_bits(keys, count))) >= p
    return kept.to(torch.float32) / (1 - p)
