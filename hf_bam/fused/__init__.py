"""Stochastic attention at the price of plain attention.

The weights are never built as a whole: attention runs over blocks of queries, noise is a function of a seed and the
place of a weight and is computed again in the backward pass, and the KL of a row comes out of the same block. On a
CPU a small compiled kernel does what lies between the matrix products; elsewhere torch does.
"""

from .attend import Attended, attend
from .native import available
from .noise import new_seed
from .sight import Sight, log_mean_attention

__all__ = ["Attended", "Sight", "attend", "available", "log_mean_attention", "new_seed"]
