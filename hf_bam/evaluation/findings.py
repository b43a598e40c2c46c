"""Predictions of several methods judged row by row: the part of a report that all kinds of models have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import metrics
from .comparison import Comparison
from .outcomes import Array, Outcome
from .recommendation import Recommending, choose, reason


@dataclass(frozen=True)
class Judged:
    """Predictions of one method, with the loss and the uncertainty of each.

    Attributes:
        predictions: as texts.
        confidence: probability, or another number about the prediction alone, as texts.
        losses: (B,) 0 where the prediction is correct.
        uncertainty: (B,) total uncertainty: entropy, or standard deviation of numbers.
        aleatoric: (B,) aleatoric part of it; None for numbers.
        epistemic: (B,) epistemic part of it; None for numbers.
        num_samples: (B,) number of samples.
        intervals: (B, 3) value and the ends of its interval, for numbers.
    """

    predictions: list[str]
    confidence: list[str]
    losses: Array
    uncertainty: Array
    num_samples: Array
    aleatoric: Array | None = None
    epistemic: Array | None = None
    intervals: Array | None = None

    @classmethod
    def of_outcome(cls, outcome: Outcome, labels: Array, names: Sequence[str]) -> Judged:
        """Return the predictions of a classifier; the loss is 1 where they are incorrect."""
        samples, chosen = outcome.samples, outcome.mean.argmax(axis=-1)
        return cls(
            predictions=[names[index] for index in chosen],
            confidence=_with_std(metrics.top_probability(samples), metrics.top_std(samples), outcome.num_samples),
            losses=(chosen != labels).astype(float),
            uncertainty=outcome.entropy,
            num_samples=outcome.num_samples,
            aleatoric=metrics.expected_entropy(samples),
            epistemic=metrics.mutual_information(samples),
        )

    @classmethod
    def of_results(cls, results: Sequence[Any], predictions: Sequence[Any], losses: Sequence[float]) -> Judged:
        """Return the results of a predictor of numbers, answers or texts, with the loss of each."""
        numbers = np.array([one.num_samples for one in results])
        shared: dict[str, Any] = {"losses": np.asarray(losses, dtype=float), "num_samples": numbers}
        if not hasattr(results[0], "entropy"):
            values, std = (np.array([getattr(one, name) for one in results]) for name in ("value", "std"))
            ends = np.array([[one.value, one.low, one.high] for one in results])
            texts, known = [f"{value:.3f}" for value in values], [f"± {own:.3f}" for own in std]
            return cls(texts, known, uncertainty=std, intervals=ends, **shared)
        probability = np.array([one.probability for one in results])
        spread = np.array([getattr(one, "std", np.nan) for one in results])
        return cls(
            predictions=[str(getattr(one, "text", one)) for one in predictions],
            confidence=_with_std(probability, spread, numbers),
            uncertainty=np.array([one.entropy for one in results]),
            aleatoric=np.array([one.aleatoric for one in results]),
            epistemic=np.array([one.epistemic for one in results]),
            **shared,
        )


def _with_std(mean: Array, std: Array, numbers: Array) -> list[str]:
    """Return numbers as texts, with their standard deviation if there are several samples."""
    return [
        f"{one:.2f}" + (f" ± {own:.2f}" if number > 1 and np.isfinite(own) else "")
        for one, own, number in zip(mean, std, numbers, strict=True)
    ]


@dataclass(frozen=True)
class Findings(Recommending):
    """Predictions of several methods for the same inputs, for models of numbers, answers or texts.

    Attributes:
        judged: predictions by method.
        texts: the inputs.
        references: true outputs as texts; empty if they are not known.
        table: one row per method: "method" and then named measures.
        loss: name of the loss.
        targets: (B,) true numbers, for a regression.
    """

    judged: dict[str, Judged]
    texts: list[str]
    references: list[str]
    table: list[dict[str, float | str]]
    loss: str = "loss"
    targets: Array | None = None

    def _recommend(self) -> tuple[str, str]:
        """Return the cheapest method, unless another one has a lower loss beyond chance, and the reason."""
        passes = {str(row["method"]): float(row.get("passes", 1)) for row in self.table}
        names = sorted(self.judged, key=lambda name: passes.get(name, 1))
        losses = np.stack([self.judged[name].losses for name in names])[:, None]  # (M, 1, B)
        best, beaten, gains = choose(losses)
        labels = [(name, passes.get(name, 1)) for name in names]
        return names[best], reason(labels, best, beaten, gains, losses.shape[-1], (self.loss,))


def judged_of(comparison: Comparison) -> dict[str, Judged]:
    """Return the predictions of all methods of a comparison of classifiers."""
    return {
        name: Judged.of_outcome(outcome, comparison.labels, comparison.label_names)
        for name, outcome in comparison.outcomes.items()
    }
