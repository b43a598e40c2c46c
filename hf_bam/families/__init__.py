"""Families of stochastic attention: one file each, with its settings, its stage, `sample` and its loss terms.

Mathematics alone: imports torch, `fields`, `objective` and `priors`.
"""

from .alignment import AlignmentFamily
from .base import STAGES, Call, Family, Mask, Stage
from .categorical import CategoricalFamily
from .codebook import Codebook
from .dirichlet import DirichletFamily
from .gaussian import GaussianFamily
from .gumbel import GumbelFamily
from .lognormal import Lognormal, LognormalFamily
from .memory import Memory, SentenceLatent, SentenceMemory
from .multinomial import MultinomialFamily
from .quantized import QuantizedFamily
from .record import Alignment
from .scores import Posterior, ScoreFamily
from .sequence import GaussianSequence
from .weibull import Weibull, WeibullFamily

FAMILIES: dict[str, type[Family]] = {
    "weibull": WeibullFamily,
    "lognormal": LognormalFamily,
    "multinomial": MultinomialFamily,
    "categorical": CategoricalFamily,
    "gumbel": GumbelFamily,
    "dirichlet": DirichletFamily,
    "gaussian": GaussianFamily,
    "quantized": QuantizedFamily,
}
"""Families by name."""

__all__ = [
    "FAMILIES",
    "STAGES",
    "Alignment",
    "AlignmentFamily",
    "Call",
    "CategoricalFamily",
    "Codebook",
    "DirichletFamily",
    "Family",
    "GaussianFamily",
    "GaussianSequence",
    "GumbelFamily",
    "Lognormal",
    "LognormalFamily",
    "Mask",
    "Memory",
    "MultinomialFamily",
    "Posterior",
    "QuantizedFamily",
    "ScoreFamily",
    "SentenceLatent",
    "SentenceMemory",
    "Stage",
    "Weibull",
    "WeibullFamily",
]
