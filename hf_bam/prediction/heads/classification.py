"""Classification of texts: one label for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ...evaluation.conformal import prediction_sets
from ...evaluation.ood import class_scores
from ...evaluation.temperature import apply_temperature
from ..adaptive import decide_early, schedule
from ..batched import Inputs
from ..inputs import Text, content_uniform
from ..results import UNCERTAINTY, Array, Result, Uncertainty, uncertainties
from .base import Head, as_array, as_rows


@dataclass(frozen=True, repr=False)
class Classification(Result, Uncertainty):
    """A label of a text.

    Attributes:
        truncated: the text is longer than `max_length`.
        samples: (S, C) probabilities.
        prediction_set: labels, most probable first, that contain the true one with the probability that
            `predictor.conformal` was given; None without it. It may be empty.
        answered: the entropy is not larger than the threshold of `predictor.abstain`; None without it.
        alignments: (S, tokens) weights of the input tokens in every sample of a latent alignment, one of them 1 for
            family="categorical"; None for other families and with `adaptive=True`.
    """

    label: str
    truncated: bool
    samples: Array = field(repr=False)
    prediction_set: list[str] | None = None
    answered: bool | None = None
    alignments: Array | None = field(default=None, repr=False)
    predicted: ClassVar[str] = "label"
    columns: ClassVar[tuple[str, ...]] = (*UNCERTAINTY, "prediction_set", "answered", "num_samples", "truncated")

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
        drawn: Inputs | None = None
        aligned: list[Array | None] = [None] * len(batch)
        if self.settings.adaptive and self.num_samples > 1:
            samples, decisions = self.sample_adaptively(inputs, self.seeds(batch))
            own = [uncertainties(x[:, None], *test)[0] for x in samples]
            own = [replace(one, significant=bool(decision)) for one, decision in zip(own, decisions, strict=True)]
        else:
            drawn = self.draw(inputs, self.seeds(batch))
            together = self.probabilities(drawn["logits"])  # (S, B, C)
            samples, own = list(together.swapaxes(0, 1)), uncertainties(together, *test)
            alignment = drawn.get("alignment")  # (S, B, 1, tokens)
            aligned = self.alignments(inputs, None if alignment is None else as_array(alignment[:, :, 0]))
        labels = self.labels
        more = [{**one, "alignments": x} for one, x in zip(self.novelties(batch, drawn), aligned, strict=True)]
        results = [
            Classification.make(one, label=labels[int(x.mean(axis=0).argmax())], truncated=cut, samples=x, **fields)
            for one, x, cut, fields in zip(own, samples, truncated, more, strict=True)
        ]
        return self.with_guarantees(batch, results)

    def fitted(self, batch: Sequence[Text], results: list[Classification]) -> list[Classification]:
        temperature, labels = self.settings.temperature, self.labels
        if temperature != 1:
            parts = [apply_temperature(result.samples[:, None], temperature) for result in results]
            own = [uncertainties(x, self.settings.threshold, self.settings.paired)[0] for x in parts]
            results = [
                replace(result, **vars(one), samples=x[:, 0], label=labels[int(x.mean(axis=(0, 1)).argmax())])
                for result, one, x in zip(results, own, parts, strict=True)
            ]
        return self.with_guarantees(batch, results)

    def with_guarantees(self, batch: Sequence[Text], results: list[Classification]) -> list[Classification]:
        """Return the results with prediction sets and abstention, as far as they were fitted."""
        if (sets := self.calibration.sets) is not None and results:
            mean = np.stack([result.samples.mean(axis=0) for result in results])  # (B, C)
            uniform = np.array([content_uniform(self.seed, item) for item in batch])
            rows = zip(results, prediction_sets(mean, uniform, sets.threshold), np.argsort(-mean, axis=1), strict=True)
            labels = self.labels
            results = [replace(one, prediction_set=[labels[i] for i in order if own[i]]) for one, own, order in rows]
        if (rule := self.calibration.abstention) is not None:
            results = [replace(result, answered=result.entropy <= rule.threshold) for result in results]
        return results

    def ood_scores(self, batch: Sequence[Text]) -> list[dict[str, float]]:
        drawn = self.draw(self.encode(batch)[0], self.seeds(batch))
        columns = class_scores(drawn["logits"].numpy(), self.probabilities(drawn["logits"]))
        if (fit := self.calibration.novelty) is not None:
            columns |= fit.scores(self.known_features(batch, drawn))
        return as_rows(columns)

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
            fresh = self.probabilities(self.draw(part, seeds[rows], look - drawn, drawn)["logits"])
            for position, index in enumerate(pending):
                samples[index] = np.concatenate([samples[index], fresh[:, position]])
            drawn = look
            so_far = np.stack([samples[index] for index in pending], axis=1)
            decided, decisions[pending] = decide_early(so_far, looks[-1], self.settings.threshold, error)
            pending = pending[~decided]
            if len(pending) == 0:
                break
        return samples, decisions
