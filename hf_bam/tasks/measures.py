"""Measures of uncertainty where predictions are numbers, texts or answers.

Classification has its own measures, in `hf_bam.evaluation.comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..evaluation import metrics
from ..prediction import Answer, Predictions, Regression


def regression_measures(targets: Sequence[float], results: Predictions[Regression]) -> dict[str, float]:
    """Return measures of the samples of numbers, and the rank correlation of their spread with the error."""
    truth, samples = np.asarray(targets, dtype=float), results.samples
    errors = abs(np.array([result.value for result in results]) - truth)
    several = len(samples) > 1
    return {
        "crps": metrics.crps(truth, samples),
        "coverage_90": metrics.interval_coverage(truth, samples) if several else np.nan,
        "error_spearman": metrics.spearman(errors, [result.std for result in results]) if several else np.nan,
    }


def text_measures(losses: Sequence[float], results: Predictions[Any]) -> dict[str, float]:
    """Return mean uncertainties, and how well the entropy ranks the results by their losses, from 0 to 1."""
    entropy = [result.entropy for result in results]
    return {
        "entropy": float(np.mean(entropy)),
        "epistemic": float(np.mean([result.epistemic for result in results])),
        "error_spearman": metrics.spearman(losses, entropy),
        "aurc": metrics.aurc(losses, entropy),
    }


def answer_measures(losses: Sequence[float], results: Predictions[Answer]) -> dict[str, float]:
    """Return the calibration of answers and how well their uncertainty finds the wrong ones.

    An answer is correct when its loss is 0. PAvPU counts an answer that is partly correct as such.
    """
    lost = np.asarray(losses)
    wrong = lost > 0
    probability = np.array([result.probability for result in results])
    right_or_wrong = np.stack([probability, 1 - probability], axis=-1)  # (B, 2)
    found = {
        "ece": metrics.ece(wrong, right_or_wrong, classwise=True),
        "brier": metrics.brier(wrong, right_or_wrong),
        "error_auroc": np.nan,
        "pavpu": np.nan,
    }
    if 0 < wrong.sum() < len(wrong):
        found["error_auroc"] = metrics.error_auroc(wrong, [result.entropy for result in results])
    if results.num_samples.min() > 1:
        found["pavpu"] = float(metrics.pavpu_from(1 - lost, [result.p_value for result in results]))
    return found
