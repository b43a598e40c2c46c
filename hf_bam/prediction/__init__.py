"""Predictions with an honest measure of doubt."""

from .heads import Settings
from .predictor import BamPredictor, Predictor
from .results import Classification, Doubt, MultiLabel, Predictions, Regression, Token, Tokens
from .samplers import Bam, Dropout, Ensemble, Plain, Sampler

__all__ = [
    "Bam",
    "BamPredictor",
    "Classification",
    "Doubt",
    "Dropout",
    "Ensemble",
    "MultiLabel",
    "Plain",
    "Predictions",
    "Predictor",
    "Regression",
    "Sampler",
    "Settings",
    "Token",
    "Tokens",
]
