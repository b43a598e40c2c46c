"""The objective: terms that attention adds to the loss, their reduction, and the annealing of their weight.

Mathematics alone: imports torch, `families` and `priors`.
"""

from .annealing import SCHEDULES, annealed
from .kl import kl_divergence, register_kl
from .terms import KlTerm, Reduction, total_kl

__all__ = ["SCHEDULES", "KlTerm", "Reduction", "annealed", "kl_divergence", "register_kl", "total_kl"]
