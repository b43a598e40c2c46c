"""Priors over keys: one file each, one line here."""

from .base import Prior
from .contextual import ContextualPrior
from .fixed import FixedPrior
from .none import NoPrior

PRIORS: dict[str, type[Prior]] = {
    "contextual": ContextualPrior,
    "fixed": FixedPrior,
    "none": NoPrior,
}

__all__ = ["PRIORS", "ContextualPrior", "FixedPrior", "NoPrior", "Prior"]
