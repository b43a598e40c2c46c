"""Regression of texts: one number for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..inputs import Text
from ..results import Array, deviation
from .base import Head, as_array


@dataclass(frozen=True)
class Regression:
    """A number for a text.

    Attributes:
        value: mean of the samples.
        std: their standard deviation.
        low: lower end of the central interval of the samples at the predictor's `level`. The interval covers the
            uncertainty of the model, not the noise of the targets.
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

    @property
    def prediction(self) -> float:
        return self.value


class TextRegression(Head):
    """A number for each text."""

    def predict(self, batch: Sequence[Text]) -> list[Regression]:
        inputs, truncated, _ = self.encode(batch)
        logits = self.logits(inputs, self.seeds(batch))
        if logits.shape[-1] != 1:
            raise ValueError(f"A regression gives one number for a text; this model gives {logits.shape[-1]}.")
        samples = as_array(logits[..., 0])  # (S, B)
        tail = (1 - self.settings.level) / 2
        low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
        columns = {"value": samples.mean(axis=0), "std": deviation(samples), "low": low, "high": high}
        return [
            Regression(
                **{name: float(column[index]) for name, column in columns.items()},
                truncated=cut,
                num_samples=len(samples),
                samples=samples[:, index],
            )
            for index, cut in enumerate(truncated)
        ]
