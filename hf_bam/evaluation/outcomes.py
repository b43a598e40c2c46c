"""Predictions of one method for a set of inputs, and their measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import metrics
from .metrics.significance import THRESHOLD, pavpu_of_flags

Array = NDArray[Any]


@dataclass(frozen=True)
class Outcome:
    """Predictions of one method for a set of inputs.

    Attributes:
        samples: (S, B, C) probabilities. Where adaptive sampling stopped early, the samples of an input are repeated.
        seconds: wall time.
        num_samples: (B,) number of samples of each input.
        novelty: (B,) novelty of each input, if it was fitted.
        novelty_percentile: (B,) share of held-out inputs with a smaller novelty.
        in_distribution: (B,) booleans.
        sets: (B, C) booleans, the classes of each prediction set; None if there were too few rows for a fit.
    """

    samples: Array
    seconds: float
    num_samples: Array
    novelty: Array | None = None
    sets: Array | None = None
    novelty_percentile: Array | None = None
    in_distribution: Array | None = None

    @classmethod
    def of_results(cls, results: Sequence[Any], seconds: float, label_names: Sequence[str]) -> Outcome:
        """Return the outcome of a predictor's results, with their novelty and their prediction sets if they have."""
        most = max(len(result.samples) for result in results)
        # Where the number of samples does not divide the most, repeating them moves their mean a little.
        samples = np.stack([np.resize(result.samples, (most, result.samples.shape[1])) for result in results], axis=1)
        sets, novelty = None, dict[str, Array]()
        if results[0].novelty is not None:
            novelty["novelty"] = np.array([result.novelty.score for result in results])
            novelty["novelty_percentile"] = np.array([result.novelty.percentile for result in results])
            novelty["in_distribution"] = np.array([result.in_distribution for result in results])
        if results[0].prediction_set is not None:
            sets = np.array([[name in result.prediction_set for name in label_names] for result in results])
        return cls(samples, seconds, np.array([result.num_samples for result in results]), sets=sets, **novelty)

    @property
    def mean(self) -> Array:
        """Mean probabilities, (B, C)."""
        return np.asarray(self.samples.mean(axis=0))

    @property
    def entropy(self) -> Array:
        """Total uncertainty, (B,)."""
        return metrics.predictive_entropy(self.samples)

    def set_measures(self, labels: Array) -> dict[str, float]:
        """Return the share of prediction sets that contain the label, and their mean size."""
        if self.sets is None:
            return {"set_coverage": math.nan, "set_size": math.nan}
        covered = self.sets[np.arange(len(labels)), labels]
        return {"set_coverage": float(covered.mean()), "set_size": float(self.sets.sum(axis=1).mean())}


@dataclass(frozen=True)
class Statistics:
    """Statistics over the samples of each input, of which the measures are functions.

    Attributes:
        mean: (B, C) mean probabilities.
        entropy: (B,) total uncertainty.
        epistemic: (B,) epistemic uncertainty.
        significant: (B,) booleans; None if an input has a single sample, which allows no test.
    """

    mean: Array
    entropy: Array
    epistemic: Array
    significant: Array | None

    @classmethod
    def of_samples(cls, samples: Array) -> Statistics:
        """Return the statistics of samples (S, B, C)."""
        return cls(
            mean=samples.mean(axis=0),
            entropy=metrics.predictive_entropy(samples),
            epistemic=metrics.mutual_information(samples),
            significant=metrics.top_two_p_values(samples) < THRESHOLD if len(samples) > 1 else None,
        )

    @classmethod
    def of_results(cls, results: Sequence[Any]) -> Statistics:
        """Return the statistics of a predictor's results, of which each may have another number of samples."""
        significant = np.array([result.significant for result in results])
        return cls(
            mean=np.stack([result.samples.mean(axis=0) for result in results]),
            entropy=np.array([result.entropy for result in results]),
            epistemic=np.array([result.epistemic for result in results]),
            significant=significant if min(result.num_samples for result in results) > 1 else None,
        )

    def measures(self, labels: Array) -> dict[str, float]:
        """Return all measures; NaN where one is not defined (only errors or none, a single sample)."""
        correct = self.mean.argmax(axis=-1) == labels
        mixed = 0 < correct.sum() < len(correct)
        return {
            "accuracy": metrics.accuracy(labels, self.mean),
            "nll": metrics.nll(labels, self.mean),
            "brier": metrics.brier(labels, self.mean),
            "ece": metrics.ece(labels, self.mean),
            "error_auroc": metrics.error_auroc(~correct, self.entropy) if mixed else math.nan,
            "error_aupr": metrics.error_aupr(~correct, self.entropy) if mixed else math.nan,
            "aurc": metrics.aurc(~correct, self.entropy),
            "pavpu": math.nan if self.significant is None else float(pavpu_of_flags(correct, self.significant)),
            "epistemic": float(self.epistemic.mean()),
        }


def measure(labels: Array, samples: Array) -> dict[str, float]:
    """Return all measures of one method; NaN where one is not defined (only errors or none, a single sample).

    Args:
        labels: (B,) indices of the true labels.
        samples: (S, B, C) probabilities.
    """
    return Statistics.of_samples(samples).measures(labels)
