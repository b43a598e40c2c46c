"""Multi-label classification of texts: any number of labels for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..inputs import Text
from ..results import Array, Result, Uncertainty, uncertainties
from .base import Head, as_array


@dataclass(frozen=True, repr=False)
class MultiLabel(Result):
    """Labels of a text, each an independent choice between yes and no.

    Attributes:
        labels: labels with a mean probability above one half.
        probabilities: mean probability of every label.
        uncertainties: uncertainty of every label.
        truncated: the text is longer than `max_length`.
        samples: (S, C) probabilities.
    """

    labels: list[str]
    probabilities: dict[str, float]
    uncertainties: dict[str, Uncertainty]
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    columns: ClassVar[tuple[str, ...]] = ("num_samples", "truncated")

    @property
    def prediction(self) -> list[str]:
        return self.labels

    def row(self) -> dict[str, Any]:
        """Return the columns: probabilities and deviations by label, and sums of the entropies over the labels."""
        own = self.uncertainties.items()
        sums = {name: sum(getattr(one, name) for _, one in own) for name in ("entropy", "aleatoric", "epistemic")}
        named = {"probability": self.probabilities, "std": {label: one.std for label, one in own}}
        return {"prediction": self.labels, **named, **sums, **super().row()}


class MultiLabelClassification(Head):
    """Any number of labels for each text."""

    def predict(self, batch: Sequence[Text]) -> list[MultiLabel]:
        inputs, truncated, _ = self.encode(batch)
        drawn = self.draw(inputs, self.seeds(batch))
        samples = as_array((drawn["logits"] / self.settings.temperature).sigmoid()).swapaxes(0, 1)  # (B, S, C)
        columns = (samples, truncated, self.novelties(batch, drawn))
        return [self.result(own, cut, novelty) for own, cut, novelty in zip(*columns, strict=True)]

    def result(self, samples: Array, truncated: bool, novelty: dict[str, Any]) -> MultiLabel:
        """Return the result of one text from its samples, (S, C), and the fields about its novelty."""
        yes_or_no = np.stack([1 - samples, samples], axis=-1)  # (S, C, 2)
        own = uncertainties(yes_or_no, self.settings.threshold, self.settings.paired)
        means = dict(zip(self.labels, samples.mean(axis=0).tolist(), strict=True))
        return MultiLabel(
            labels=[name for name, mean in means.items() if mean > 0.5],
            probabilities=means,
            uncertainties=dict(zip(self.labels, own, strict=True)),
            truncated=truncated,
            num_samples=len(samples),
            samples=samples,
            **novelty,
        )
