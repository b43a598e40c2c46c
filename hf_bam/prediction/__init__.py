"""Predictions with their uncertainty.

A [`Predictor`][hf_bam.prediction.Predictor] reads inputs, a sampler draws outputs of the model (Bayesian attention,
Monte Carlo dropout, an ensemble, one deterministic pass, or a student of one of them), and a head turns them into
results. This package imports `patching` and `attention` for the samplers and `evaluation` for the metrics; tasks,
training and integrations use it.
"""

from .alignment import Alignments, alignments
from .bayesian import BamPredictor
from .calibration import Calibration
from .heads import (
    Answer,
    Candidate,
    Classification,
    Embedding,
    GeneratedToken,
    Generation,
    MultiLabel,
    Regression,
    Token,
    Tokens,
)
from .posthoc import calibrate
from .predictor import Predictor
from .results import Novelty, Predictions, Result, Uncertainty
from .samplers import Bam, Dropout, Ensemble, Plain, Sampler, Student
from .settings import Settings

__all__ = [
    "Alignments",
    "Answer",
    "Bam",
    "BamPredictor",
    "Calibration",
    "Candidate",
    "Classification",
    "Dropout",
    "Embedding",
    "Ensemble",
    "GeneratedToken",
    "Generation",
    "MultiLabel",
    "Novelty",
    "Plain",
    "Predictions",
    "Predictor",
    "Regression",
    "Result",
    "Sampler",
    "Settings",
    "Student",
    "Token",
    "Tokens",
    "Uncertainty",
    "alignments",
    "calibrate",
]
