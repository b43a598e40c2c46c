"""Random numbers as a function of a position: the same position gives the same number, in whatever order they come.

A generation that is to use one draw of the attention from its first token to its last needs this: with a cache every
weight is computed once, without one again at every step, and beams change places in between.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _signed(value: int) -> int:
    """The same 64 bits as torch's signed integer."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right; torch's own repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of the argument."""
    x = (x ^ _shift(x, 30)) * _signed(_FIRST)
    x = (x ^ _shift(x, 27)) * _signed(_SECOND)
    return x ^ _shift(x, 31)


def uniform(seed: int, *positions: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), float32, one for each combination of the positions.

    Args:
        seed: any integer.
        positions: integer tensors that broadcast against each other.
    """
    state = mix(torch.tensor(_signed(seed * _GOLDEN), device=positions[0].device))
    for position in positions:
        state = mix(state + (position + 1) * _signed(_GOLDEN))
    # 23 bits and a half: exact in float32, and neither 0 nor 1.
    return (_shift(state, 41).to(torch.float32) + 0.5) * 2.0**-23
