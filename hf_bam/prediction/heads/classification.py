"""Classification of texts: one label for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..adaptive import decide_early, schedule
from ..batched import Inputs
from ..inputs import Text
from ..results import Array, Uncertainty, uncertainties
from .base import Head


@dataclass(frozen=True)
class Classification(Uncertainty):
    """A label of a text.

    Attributes:
        truncated: the text is longer than `max_length`.
        samples: (S, C) probabilities.
    """

    label: str
    truncated: bool
    samples: Array = field(repr=False)

    @property
    def prediction(self) -> int:
        """Index of the label."""
        return int(self.samples.mean(axis=0).argmax())


class SequenceClassification(Head):
    """One label for each text."""

    adaptive = True

    def predict(self, batch: Sequence[Text]) -> list[Classification]:
        inputs, truncated, _ = self.encode(batch)
        test = (self.settings.threshold, self.settings.paired)
        if self.settings.adaptive and self.num_samples > 1:
            samples, decisions = self.sample_adaptively(inputs, self.seeds(batch))
            own = [uncertainties(x[:, None], *test)[0] for x in samples]
            own = [replace(one, significant=bool(decision)) for one, decision in zip(own, decisions, strict=True)]
        else:
            together = self.probabilities(self.logits(inputs, self.seeds(batch)))  # (S, B, C)
            samples, own = list(together.swapaxes(0, 1)), uncertainties(together, *test)
        labels = self.labels
        return [
            Classification.make(one, label=labels[int(x.mean(axis=0).argmax())], truncated=cut, samples=x)
            for one, x, cut in zip(own, samples, truncated, strict=True)
        ]

    def sample_adaptively(self, inputs: Inputs, seeds: Tensor) -> tuple[list[Array], Array]:
        """Return as many samples of each input as its decision needs, and the decisions."""
        looks = schedule(self.num_samples, first=max(4, self.num_samples // 8))
        # Every look may err, so each gets its part of the error.
        error = self.settings.error / max(1, len(looks) - 1)
        pending = np.arange(next(iter(inputs.values())).shape[0])
        samples: list[Array] = [np.zeros((0, len(self.labels)))] * len(pending)
        decisions = np.zeros(len(pending), dtype=bool)
        drawn = 0
        for look in looks:
            rows = torch.from_numpy(pending)
            part = {name: tensor[rows.to(tensor.device)] for name, tensor in inputs.items()}
            fresh = self.probabilities(self.logits(part, seeds[rows], look - drawn, drawn))
            for position, index in enumerate(pending):
                samples[index] = np.concatenate([samples[index], fresh[:, position]])
            drawn = look
            so_far = np.stack([samples[index] for index in pending], axis=1)
            decided, decisions[pending] = decide_early(so_far, looks[-1], self.settings.threshold, error)
            pending = pending[~decided]
            if len(pending) == 0:
                break
        return samples, decisions
