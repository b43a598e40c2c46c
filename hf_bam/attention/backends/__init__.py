"""Backends of attention: ways to compute a call, the fastest first.

`native` and `blocks` serve families of the score stage and never build the weights as a whole: attention runs over
blocks of queries, noise is a function of a seed and the position of a weight and is computed again in the backward
pass, and the KL of a row comes out of the same block. `native` is a small compiled kernel for CPUs, `blocks` is torch
alone. `flex` is FlexAttention, for GPUs. `matrix` serves every call.
"""

from typing import Protocol

from torch import Tensor

from ..call import AttentionCall
from ..forward import attend as attend_by_matrix
from .flex_backend import Flex
from .fused import Attended, Blocks, Native, attend, check_shapes, key_noise
from .native import available


class Backend(Protocol):
    """Way to compute an attention call."""

    def supports(self, call: AttentionCall) -> bool:
        """Return whether the backend can compute the call."""

    def run(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, T, H, D_v), and the weights (B, H, T, S) if they were built."""


class Matrix:
    """Backend that builds the weights: every stage, every model, compiled code."""

    def supports(self, call: AttentionCall) -> bool:
        return True

    def run(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        return attend_by_matrix(call)


BACKENDS: dict[str, Backend] = {"native": Native(), "flex": Flex(), "blocks": Blocks(), "matrix": Matrix()}
"""Backends by name; a call goes to the first one that supports it."""


def backend_for(call: AttentionCall) -> Backend:
    """Return the first backend that supports a call."""
    return next(backend for backend in BACKENDS.values() if backend.supports(call))


__all__ = [
    "BACKENDS",
    "Attended",
    "Backend",
    "Blocks",
    "Flex",
    "Matrix",
    "Native",
    "attend",
    "available",
    "backend_for",
    "check_shapes",
    "key_noise",
]
