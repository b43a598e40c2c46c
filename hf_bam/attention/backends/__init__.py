"""Stochastic attention at the price of plain attention.

The weights are never built as a whole: attention runs over blocks of queries, noise is a function of a seed and the
place of a weight and is computed again in the backward pass, and the KL of a row comes out of the same block. On a
CPU a small compiled kernel does what lies between the matrix products; elsewhere torch does.
"""

from .attend import Attended, attend, check_shapes, key_noise
from .native import available

__all__ = ["Attended", "attend", "available", "check_shapes", "key_noise"]
