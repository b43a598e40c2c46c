"""Objective: terms that attention adds to the loss, KL divergences of registered pairs, and annealing.

Mathematics alone: imports torch and no other subpackage.
"""

from .alignment import AlignmentKl
from .annealing import SCHEDULES, annealed
from .kl import kl_divergence, normal_kl, register_kl
from .terms import KL, LATENT_KL, CommitmentTerm, KlTerm, LatentKl, LossTerm, Reduction, reduce_terms

__all__ = [
    "KL",
    "LATENT_KL",
    "SCHEDULES",
    "AlignmentKl",
    "CommitmentTerm",
    "KlTerm",
    "LatentKl",
    "LossTerm",
    "Reduction",
    "annealed",
    "kl_divergence",
    "normal_kl",
    "reduce_terms",
    "register_kl",
]
