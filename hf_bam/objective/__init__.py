"""Objective: terms that attention adds to the loss, KL divergences of registered pairs, and annealing.

Mathematics alone: imports torch and no other subpackage.
"""

from .alignment import AlignmentKl
from .annealing import SCHEDULES, annealed
from .kl import kl_divergence, register_kl
from .terms import KL, KlTerm, LossTerm, Reduction, reduce_terms

__all__ = [
    "KL",
    "SCHEDULES",
    "AlignmentKl",
    "KlTerm",
    "LossTerm",
    "Reduction",
    "annealed",
    "kl_divergence",
    "reduce_terms",
    "register_kl",
]
