"""Calibration of a predictor: what was fitted on data of the user, and the file that stores it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..evaluation.conformal import IntervalFit, quantile
from ..evaluation.novelty import FeatureGaussians, percentiles
from ..evaluation.ood import feature_scores
from ..fields import check_fields, setting
from .results import Array, Novelty

FILE = "calibration.safetensors"
FORMAT = 1
"""Version of the file; increased when older versions of hf_bam cannot read a new file."""


@dataclass(frozen=True)
class NoveltyFit:
    """Gaussians of the features of a training set, and distances of other inputs from the same distribution.

    Attributes:
        reference: (N,) sorted Mahalanobis distances of inputs that are not part of the fit.
        false_alarms: share of inputs from the distribution of the training set that count as outside of it.
    """

    gaussians: FeatureGaussians
    reference: Array
    false_alarms: float = setting(above=0, below=1)

    def __post_init__(self) -> None:
        check_fields(self)
        size = self.gaussians.center.shape[-1]
        shapes = [array.shape for array in (*self.gaussians.arrays().values(), self.reference)]
        if shapes != [(len(self.gaussians.means), size), (size, size), (size,), (size, size), (self.reference.size,)]:
            raise ValueError(f"The arrays of the novelty have shapes {shapes} that do not fit each other.")
        if not all(np.isfinite(array).all() for array in (*self.gaussians.arrays().values(), self.reference)):
            raise ValueError("Some numbers of the novelty are not finite.")

    @classmethod
    def fit(cls, features: Array, labels: Array, held_out: Array, false_alarms: float) -> NoveltyFit:
        """Return the fit to features (B, D) of classes (B,), with the distances of further features (N, D)."""
        arrays = FeatureGaussians.fit(features, np.unique(labels, return_inverse=True)[1]).arrays()
        # In the precision of the file, so that nothing changes when the predictor is saved and loaded.
        gaussians = FeatureGaussians(**{name: array.astype(np.float32) for name, array in arrays.items()})
        reference = np.sort(gaussians.mahalanobis(held_out)).astype(np.float32)
        return cls(gaussians, reference, false_alarms)

    @property
    def threshold(self) -> float:
        """Mahalanobis distance above which an input is not from the distribution of the training set."""
        return quantile(self.reference, self.false_alarms)

    def scores(self, features: Array) -> dict[str, Array]:
        """Return the distances of features (B, D) by name."""
        own = len(self.gaussians.center)
        if features.shape[-1] != own:
            raise ValueError(f"The calibration has features of size {own}, this model {features.shape[-1]}.")
        return feature_scores(self.gaussians, features)

    def fields(self, features: Array) -> list[dict[str, Any]]:
        """Return the fields of results about their novelty, from features (B, D)."""
        distances = self.scores(features)
        distance, threshold = distances["mahalanobis"], self.threshold
        relative = distances.get("relative_mahalanobis", np.full(len(features), np.nan))
        rows = zip(distance.tolist(), relative.tolist(), percentiles(self.reference, distance).tolist(), strict=True)
        return [{"novelty": Novelty(*row), "in_distribution": row[0] <= threshold} for row in rows]


@dataclass(frozen=True)
class Sets:
    """Threshold of prediction sets, which contain the label with probability of at least `1 - alpha`."""

    threshold: float
    alpha: float = setting(above=0, below=1)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Intervals(IntervalFit):
    """Fit of intervals, which contain the number with probability of at least `1 - alpha`."""

    alpha: float = setting(above=0, below=1)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Abstention:
    """Entropy up to which an input is answered, with an error rate of at most `risk` among answered inputs.

    Attributes:
        confidence: probability, over the examples of the fit, that the error rate is at most `risk`.
    """

    threshold: float
    risk: float = setting(above=0, below=1)
    confidence: float = setting(above=0, below=1)

    def __post_init__(self) -> None:
        check_fields(self)


NUMBERS: dict[str, type[Sets] | type[Intervals] | type[Abstention]] = {
    "sets": Sets,
    "intervals": Intervals,
    "abstention": Abstention,
}
"""Parts of a calibration that are numbers, by their field."""


@dataclass(frozen=True)
class Calibration:
    """Everything that was fitted for a predictor; the temperature is one of its settings."""

    novelty: NoveltyFit | None = None
    sets: Sets | None = None
    intervals: Intervals | None = None
    abstention: Abstention | None = None

    def without_guarantees(self) -> Calibration:
        """Return the calibration without the parts that hold for the probabilities of their fit only."""
        return replace(self, **dict.fromkeys(NUMBERS))

    def describe(self) -> dict[str, str]:
        """Return what was fitted, in words, by name."""
        described = {}
        for name, part in {"prediction sets": self.sets, "intervals": self.intervals}.items():
            if part is not None:
                described[name] = f"coverage of at least {1 - part.alpha:.4g}"
        if (rule := self.abstention) is not None:
            described["abstention"] = (
                f"error of answered inputs at most {rule.risk:.4g}, confidence {rule.confidence:.4g}"
            )
        if self.novelty is not None:
            described["novelty"] = f"false alarms {self.novelty.false_alarms:.4g}"
        return described

    def write(self, folder: str | os.PathLike[str], about: Mapping[str, Any]) -> Path:
        """Write the file as a whole, with a description of the predictor in its header, and return its path."""
        numbers: dict[str, Any] = {name: asdict(part) for name in NUMBERS if (part := getattr(self, name)) is not None}
        arrays: dict[str, Array] = {}
        if self.novelty is not None:
            numbers["novelty"] = {"false_alarms": self.novelty.false_alarms}
            arrays = {**self.novelty.gaussians.arrays(), "reference": self.novelty.reference}
        header = {"calibration_format": str(FORMAT), "numbers": json.dumps(numbers), "about": json.dumps(dict(about))}
        path = Path(folder, FILE)
        unfinished = path.with_name(f".{FILE}.{os.getpid()}")
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, unfinished, header)
        os.replace(unfinished, path)
        return path

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> tuple[Calibration, dict[str, Any]]:
        """Return the calibration in a folder and the description of its predictor.

        Raises:
            ValueError: if the file is damaged, of another program or of a newer version.
        """
        path = Path(folder, FILE)
        try:
            with safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} cannot be read, it is damaged or incomplete: {error}") from error
        version = header.get("calibration_format", "")
        if not version.isdigit():
            raise ValueError(f"{path} was not written by hf_bam: its header lacks calibration_format.")
        if int(version) > FORMAT:
            raise ValueError(f"{path} has format {version}, this hf_bam reads up to {FORMAT}: install a newer hf_bam.")
        try:
            numbers, about = json.loads(header["numbers"]), dict(json.loads(header["about"]))
            parts: dict[str, Any] = {name: cls(**numbers[name]) for name, cls in NUMBERS.items() if name in numbers}
            if "novelty" in numbers:
                parts["novelty"] = NoveltyFit(
                    reference=arrays.pop("reference"), gaussians=FeatureGaussians(**arrays), **numbers["novelty"]
                )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} has a content that this hf_bam does not know: {error!r}") from error
        return cls(**parts), about
