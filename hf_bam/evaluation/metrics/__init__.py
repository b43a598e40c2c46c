"""Metrics of Monte Carlo predictions: pure functions of labels (B,) and samples (S, B, C), in scikit-learn's order.

They take numpy arrays, tensors and lists, and return floats or float64 arrays. `hf_bam.integrations.evaluate` wraps
them as metrics of the `evaluate` library. Imports numpy, scipy, scikit-learn and torch only.
"""

from .alignment import alignment_accuracy, token_alignment
from .calibration import brier, ece, mce, nll
from .classification import accuracy, f1, mcc
from .detection import error_aupr, error_auroc, fpr95, ood_auroc
from .regression import crps, gaussian_crps, gaussian_nll, interval_coverage, pearson, sharpness, spearman
from .selective import aurc, e_aurc, risk_coverage
from .significance import pavpu, pavpu_from, top_two_p_values
from .text import distinct, pairwise_agreement, token_entropy, unigram_entropy
from .uncertainty import expected_entropy, mutual_information, predictive_entropy, top_probability, top_std

__all__ = [
    "accuracy",
    "alignment_accuracy",
    "aurc",
    "brier",
    "crps",
    "distinct",
    "e_aurc",
    "ece",
    "error_aupr",
    "error_auroc",
    "expected_entropy",
    "f1",
    "fpr95",
    "gaussian_crps",
    "gaussian_nll",
    "interval_coverage",
    "mcc",
    "mce",
    "mutual_information",
    "nll",
    "ood_auroc",
    "pairwise_agreement",
    "pavpu",
    "pavpu_from",
    "pearson",
    "predictive_entropy",
    "risk_coverage",
    "sharpness",
    "spearman",
    "token_alignment",
    "token_entropy",
    "top_probability",
    "top_std",
    "top_two_p_values",
    "unigram_entropy",
]
