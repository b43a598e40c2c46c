"""Metrics for the `evaluate` library: `BamCalibration().compute(predictions=..., references=...)`.

evaluate collects batches over the first axis, so the predictions of a classifier are (B, S, C) here: for each input a
list of samples. Nothing is downloaded, and a single process writes nothing to disk.
"""

from __future__ import annotations

from ..extras import check_extra

check_extra("evaluate", "hf_bam.integrations.evaluate")

from collections.abc import Callable, Sequence
from typing import Any

import evaluate
import numpy as np
from datasets import Features, Value
from datasets import Sequence as ListOf

from ..evaluation.metrics._arrays import (
    Array,
    Numbers,
    check_choice,
    labelled_samples,
    numbers,
    predicted_classes,
)
from ..evaluation.metrics.calibration import Binning, brier, ece, mce, nll
from ..evaluation.metrics.detection import error_aupr, error_auroc
from ..evaluation.metrics.selective import aurc, e_aurc
from ..evaluation.metrics.significance import THRESHOLD, pavpu
from ..evaluation.metrics.text import distinct, pairwise_agreement
from ..evaluation.metrics.uncertainty import (
    expected_entropy,
    mutual_information,
    predictive_entropy,
    top_probability,
    top_std,
)

SCORES: dict[str, Callable[[Numbers], Array]] = {
    "predictive_entropy": predictive_entropy,
    "expected_entropy": expected_entropy,
    "mutual_information": mutual_information,
    "top_probability": lambda samples: 1 - top_probability(samples),
    "top_std": top_std,
}
"""Uncertainties by name; higher is more uncertain."""


class BamMetric(evaluate.Metric):
    """Base class of metrics of classification samples. Keyword arguments are those of `evaluate.Metric`."""

    features_ = Features({"predictions": ListOf(ListOf(Value("float32"))), "references": Value("int64")})
    inputs = "predictions: (B, S, C) class probabilities of S samples for each input. references: (B,) class indices."

    def __init__(self, **settings: Any) -> None:
        # Several processes exchange their predictions through cache files; one process needs none.
        settings.setdefault("keep_in_memory", settings.get("num_process", 1) == 1)
        super().__init__(**settings)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.__doc__ or "", citation="", inputs_description=self.inputs, features=self.features_
        )

    def _build_data_dir(self) -> str:
        """Return the cache folder without creating it when everything stays in memory."""
        return self._data_dir_root if self.keep_in_memory else super()._build_data_dir()


class BamCalibration(BamMetric):
    """nll, brier, ece and mce of the mean over samples; options of `compute`: bins, binning, classwise."""

    def _compute(
        self,
        predictions: Numbers,
        references: Numbers,
        bins: int = 15,
        binning: Binning = "width",
        classwise: bool = False,
    ) -> dict[str, float]:
        samples = _samples_first(predictions)
        return {
            "nll": nll(references, samples),
            "brier": brier(references, samples),
            "ece": ece(references, samples, bins, binning, classwise),
            "mce": mce(references, samples, bins, binning, classwise),
        }


class BamSelective(BamMetric):
    """error_auroc, error_aupr, aurc and e_aurc of an uncertainty; option of `compute`: uncertainty, see SCORES."""

    def _compute(
        self, predictions: Numbers, references: Numbers, uncertainty: str = "predictive_entropy"
    ) -> dict[str, float]:
        check_choice(uncertainty, "uncertainty", tuple(SCORES))
        labels, samples = labelled_samples(references, _samples_first(predictions))
        scores, errors = SCORES[uncertainty](samples), predicted_classes(samples) != labels
        return {
            "error_auroc": error_auroc(errors, scores),
            "error_aupr": error_aupr(errors, scores),
            "aurc": aurc(errors, scores),
            "e_aurc": e_aurc(errors, scores),
        }


class BamPavpu(BamMetric):
    """pavpu, by a t-test between the two most probable classes; options of `compute`: threshold, paired."""

    def _compute(
        self, predictions: Numbers, references: Numbers, threshold: Numbers = THRESHOLD, paired: bool = False
    ) -> dict[str, float | Array]:
        return {"pavpu": pavpu(references, _samples_first(predictions), threshold, paired)}


class BamTextDiversity(BamMetric):
    """distinct_1, distinct_2, exact and token_f1 agreement of the samples of an input, mean over the inputs."""

    features_ = Features({"predictions": ListOf(Value("string"))})
    inputs = "predictions: for each input a list of at least two strings, its samples."

    def _compute(self, predictions: Sequence[Sequence[str]]) -> dict[str, float]:
        scores: dict[str, Callable[[Sequence[str]], float]] = {
            "distinct_1": lambda texts: distinct(texts, n=1),
            "distinct_2": lambda texts: distinct(texts, n=2),
            "exact_agreement": lambda texts: pairwise_agreement(texts, "exact"),
            "token_f1_agreement": lambda texts: pairwise_agreement(texts, "token_f1"),
        }
        return {name: float(np.mean([score(texts) for texts in predictions])) for name, score in scores.items()}


def _samples_first(predictions: Numbers) -> Array:
    """Return predictions (B, S, C) as samples (S, B, C)."""
    array = numbers(predictions, "predictions")
    if array.ndim != 3:
        raise ValueError(f"predictions has shape {array.shape}; expected (B, S, C): inputs, samples, classes.")
    return array.swapaxes(0, 1)
