"""Predictors of any sampler: the objects that users call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import Self, Unpack

from ..evaluation.labels import label_indices
from ..evaluation.temperature import fit_temperature
from . import storage
from .base import BasePredictor, Columns, Own
from .features import stacked
from .fitting import fit_abstention, fit_conformal, fit_novelty, fit_student
from .results import Array
from .samplers import Sampler, Student
from .settings import LoadingOptions, SettingChanges


class Predictor(BasePredictor[Own]):
    """Predictions from several samples of each input, with their uncertainty.

    For type checkers, `Predictor[Classification](...)` names the class of the results; by default it is their base
    class, [`Result`][hf_bam.prediction.Result].

    Args:
        sampler: source of the samples: [`Bam`][hf_bam.prediction.Bam], `Dropout`, `Ensemble` or `Plain`.
        tokenizer: the tokenizer of the model.
        num_samples: samples of each input.
        head: kind of output: "classification", "multi-label", "regression", "tokens", "question-answering" or
            "generation". By default it follows from the class of the model.
        batch_size: inputs at a time.
        seed: the same seed and input give the same samples, whatever else is in the batch; None: new ones in every
            call.
        max_length: longer texts are truncated, and their results are marked. By default the limit of the model.
        progress: show a progress bar; by default when standard error is a terminal.
        settings: fields of [`Settings`][hf_bam.prediction.Settings].

    Attributes:
        calibration: what `fit`, `conformal` and `abstain` have fitted. They replace it as a whole, so that other
            threads can predict meanwhile.
        table: candidates of [`hf_bam.calibrate`][hf_bam.calibrate] with their scores; None for other predictors, and
            for loaded ones.
    """

    def calibrated(self, inputs: Any, labels: Iterable[int | str], columns: Columns = None) -> Self:
        """Return a copy with the temperature that minimises the negative log-likelihood of held-out, labelled inputs.

        The temperature divides the logits of every sample; the likelihood is that of their mean.
        """
        plain = self.with_settings(temperature=1.0, adaptive=False)
        texts = list(self.items(inputs, columns))
        truth = label_indices(labels, self.label_names, len(texts))
        return self.with_settings(temperature=fit_temperature(truth, plain(texts).samples))

    def fit(
        self,
        inputs: Any,
        labels: Iterable[int | str] | None = None,
        *,
        held_out: Any = None,
        false_alarms: float = 0.05,
        columns: Columns = None,
    ) -> Self:
        """Fit the novelty of later inputs to a training set, in one deterministic pass, and return this predictor.

        Args:
            inputs: the training set.
            labels: its classes, for classification; by default those that the model predicts.
            held_out: inputs from the same distribution that the model was not trained on; by default a tenth of
                `inputs` is kept out of the fit.
            false_alarms: share of inputs from this distribution whose results have `in_distribution=False`.
        """
        others = None if held_out is None else list(self.items(held_out, columns))
        novelty = fit_novelty(self, list(self.items(inputs, columns)), labels, others, false_alarms)
        self.calibration = replace(self.calibration, novelty=novelty)
        return self

    def conformal(self, inputs: Any, labels: Iterable[Any], alpha: float = 0.1, columns: Columns = None) -> Self:
        """Fit prediction sets of classes, or intervals of numbers, to held-out inputs, and return this predictor.

        They contain the truth with probability of at least `1 - alpha`, for later inputs from the same distribution.
        """
        fitted = fit_conformal(self, list(self.items(inputs, columns)), labels, alpha)
        self.calibration = replace(self.calibration, **fitted)
        return self

    def abstain(
        self,
        inputs: Any,
        labels: Iterable[int | str],
        risk: float = 0.05,
        confidence: float = 0.9,
        columns: Columns = None,
    ) -> Self:
        """Fit the entropy up to which inputs are answered to held-out inputs, and return this predictor.

        With probability `confidence` over the held-out inputs, the error rate of later inputs from the same
        distribution that are answered is at most `risk`.
        """
        rule = fit_abstention(self, list(self.items(inputs, columns)), labels, risk, confidence)
        self.calibration = replace(self.calibration, abstention=rule)
        return self

    def distill(self, inputs: Any, columns: Columns = None) -> Self:
        """Return a predictor that repeats the samples of this one in one deterministic pass.

        Mean and deviation of the logits are fitted as functions of the features, in a minute and without labels. For
        classification and regression.

        Args:
            inputs: some hundreds or thousands, from the distribution of later ones; the training set serves.
        """
        fit = fit_student(self, list(self.items(inputs, columns)))
        other = copy(self)
        other.sampler = Student(self.sampler.model, fit)
        other.calibration = replace(self.calibration.without_guarantees(), student=fit)
        return other

    def ood_scores(self, inputs: Any, columns: Columns = None) -> dict[str, Array]:
        """Return all scores for the detection of out-of-distribution inputs, (B,) each; higher is more unusual.

        [`hf_bam.evaluation.ood`][hf_bam.evaluation.ood] lists them. Distances need `fit`, and models without classes
        have nothing else; `mutual_information` needs several samples.
        """
        rows = self._everything(inputs, columns, "ood_scores")
        return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else {})}

    def features(self, inputs: Any, columns: Columns = None) -> dict[str, Array]:
        """Return the [features][hf_bam.prediction.features] of the deterministic model by name, (B, D) each."""
        return stacked(self._everything(inputs, columns, "features"))

    def with_settings(self, **changes: Unpack[SettingChanges]) -> Self:
        """Return a copy with some settings changed.

        Prediction sets, intervals and abstention hold for the probabilities of their fit: the copy has none of them if
        the number of samples, the temperature, adaptive sampling or `max_length` changes.
        """
        other = copy(self)
        other.settings = replace(self.settings, **changes)
        if other.settings.probabilities != self.settings.probabilities:
            other.calibration = self.calibration.without_guarantees()
        return other

    def describe(self) -> dict[str, Any]:
        """Return what was fitted, and the temperature if it is not 1, in words by name."""
        temperature = self.settings.temperature
        return {
            **({} if temperature == 1 else {"temperature": float(f"{temperature:.4g}")}),
            **self.calibration.describe(),
        }

    def save_pretrained(self, folder: str | os.PathLike[str], **options: Any) -> None:
        """Save the model, its tokenizer, and `calibration.safetensors` with the settings and all that was fitted.

        Args:
            options: arguments of the model's `save_pretrained`.
        """
        storage.save(self, folder, **options)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        sampler: Callable[[Any], Sampler] | None = None,
        **options: Unpack[LoadingOptions],
    ) -> Self:
        """Load a predictor, or the model and the tokenizer of a folder or a repository of the Hub.

        Args:
            sampler: class of the sampler, or a function that makes one from the model. By default the one that was
                saved, or else [`Bam`][hf_bam.prediction.Bam] for a patched model and `Plain` for others.
            options: arguments of the predictor, which replace saved ones, and of transformers' `from_pretrained`
                (`revision`, `token`, `dtype`, ...).
        """
        stored = storage.load(name_or_path, {**options})
        own = stored.sampler() if sampler is None else sampler(stored.model)
        return stored.calibrate(cls(own, stored.tokenizer, **stored.options))

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the patched model, its tokenizer, the calibration and a model card, in one commit.

        Args:
            options: arguments of [`hf_bam.push_to_hub`][hf_bam.push_to_hub].
        """
        return storage.push(self, repo_id, **options)
