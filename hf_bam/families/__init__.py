"""Posteriors over attention weights: one file each, one line here."""

from .base import Posterior
from .lognormal import Lognormal
from .weibull import Weibull

FAMILIES: dict[str, type[Posterior]] = {
    "weibull": Weibull,
    "lognormal": Lognormal,
}

__all__ = ["FAMILIES", "Lognormal", "Posterior", "Weibull"]
