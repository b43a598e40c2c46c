"""Priors over attention weights: networks that give the prior attention, and distributions around it.

Mathematics alone: imports torch and no other subpackage.
"""

from .base import Prior
from .contextual import ContextualPrior
from .distributions import Gamma, LognormalPrior, MedianLognormalPrior
from .fixed import FixedPrior

PRIORS: dict[str, type[Prior]] = {
    "contextual": ContextualPrior,
    "fixed": FixedPrior,
}
"""Priors by name; one file each, one line here."""

__all__ = ["PRIORS", "ContextualPrior", "FixedPrior", "Gamma", "LognormalPrior", "MedianLognormalPrior", "Prior"]
