"""Priors over keys: one file each, one line here."""

from .base import Prior
from .contextual import ContextualPrior
from .distributions import DISTRIBUTIONS, Gamma, LognormalPrior, PriorDistribution
from .fixed import FixedPrior
from .none import NoPrior

PRIORS: dict[str, type[Prior]] = {
    "contextual": ContextualPrior,
    "fixed": FixedPrior,
    "none": NoPrior,
}

__all__ = [
    "DISTRIBUTIONS",
    "PRIORS",
    "ContextualPrior",
    "FixedPrior",
    "Gamma",
    "LognormalPrior",
    "NoPrior",
    "Prior",
    "PriorDistribution",
]
