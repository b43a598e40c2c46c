"""Families of stochastic attention: one file each, with its settings, its stage, `sample` and its loss terms.

Mathematics alone: imports torch, `fields`, `objective` and `priors`.
"""

from .alignment import AlignmentFamily
from .base import STAGES, Call, Family, Mask, Stage
from .categorical import CategoricalFamily
from .dirichlet import DirichletFamily
from .gaussian import GaussianFamily
from .gumbel import GumbelFamily
from .lognormal import Lognormal, LognormalFamily
from .memory import Memory, SentenceLatent
from .multinomial import MultinomialFamily
from .record import Alignment
from .scores import Posterior, ScoreFamily
from .weibull import Weibull, WeibullFamily

FAMILIES: dict[str, type[Family]] = {
    "weibull": WeibullFamily,
    "lognormal": LognormalFamily,
    "multinomial": MultinomialFamily,
    "categorical": CategoricalFamily,
    "gumbel": GumbelFamily,
    "dirichlet": DirichletFamily,
    "gaussian": GaussianFamily,
}
"""Families by name."""

__all__ = [
    "FAMILIES",
    "STAGES",
    "Alignment",
    "AlignmentFamily",
    "Call",
    "CategoricalFamily",
    "DirichletFamily",
    "Family",
    "GaussianFamily",
    "GumbelFamily",
    "Lognormal",
    "LognormalFamily",
    "Mask",
    "Memory",
    "MultinomialFamily",
    "Posterior",
    "ScoreFamily",
    "SentenceLatent",
    "Stage",
    "Weibull",
    "WeibullFamily",
]
