"""Regression of texts: one number for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..inputs import Text
from ..results import Array, Result, deviation
from .base import Head, as_array, as_rows


@dataclass(frozen=True, repr=False)
class Regression(Result):
    """A number for a text.

    Attributes:
        value: mean of the samples.
        std: their standard deviation.
        low: lower end of the central interval of the samples at the predictor's `level`. The interval covers the
            uncertainty of the model, not the noise of the targets. After `predictor.conformal` it contains the target
            with the probability of that fit.
        high: upper end of the interval.
        truncated: the text is longer than `max_length`.
        samples: (S,).
    """

    value: float
    std: float
    low: float
    high: float
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    columns: ClassVar[tuple[str, ...]] = ("std", "low", "high", "num_samples", "truncated")

    @property
    def prediction(self) -> float:
        return self.value


class TextRegression(Head):
    """A number for each text."""

    def predict(self, batch: Sequence[Text]) -> list[Regression]:
        inputs, truncated, _ = self.encode(batch)
        drawn = self.draw(inputs, self.seeds(batch))
        logits = drawn["logits"]
        if logits.shape[-1] != 1:
            raise ValueError(f"A regression gives one number for a text; this model gives {logits.shape[-1]}.")
        samples = as_array(logits[..., 0])  # (S, B)
        mean, std = samples.mean(axis=0), deviation(samples)
        low, high = self.interval(samples, mean, std)
        columns = {"value": mean, "std": std, "low": low, "high": high}
        own = zip(as_rows(columns), truncated, samples.T, self.novelties(batch, drawn), strict=True)
        return [
            Regression(**numbers, truncated=cut, num_samples=len(x), samples=x, **novelty)  # type: ignore[arg-type]
            for numbers, cut, x, novelty in own
        ]

    def fitted(self, batch: Sequence[Text], results: list[Regression]) -> list[Regression]:
        if (fit := self.calibration.intervals) is None:
            return results
        mean, std = (np.array([getattr(result, name) for result in results]) for name in ("value", "std"))
        low, high = (ends.tolist() for ends in fit.intervals(mean, std))
        return [replace(result, low=a, high=b) for result, a, b in zip(results, low, high, strict=True)]

    def interval(self, samples: Array, mean: Array, std: Array) -> tuple[Array, Array]:
        """Return the ends of the intervals, (B,) each: those of the samples, (S, B), or conformal ones if fitted."""
        if self.calibration.intervals is not None:
            return self.calibration.intervals.intervals(mean, std)
        tail = (1 - self.settings.level) / 2
        low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
        return low, high
