"""Predictions with an honest measure of doubt."""

from .heads import Settings
from .predictor import BamPredictor, Predictor
from .results import Classification, MultiLabel, Predictions, Regression, Token, Tokens, Uncertainty
from .samplers import Bam, Dropout, Ensemble, Plain, Sampler

__all__ = [
    "Bam",
    "BamPredictor",
    "Classification",
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
    "Uncertainty",
]
