"""Calibration of a predictor: what was fitted on data of the user, and the file that stores it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import tensors
from ..evaluation.conformal import IntervalFit, quantile
from ..evaluation.novelty import FeatureGaussians, LayerGaussians, percentiles
from ..fields import check_fields, parse_json, setting
from .results import Array, Novelty
from .student import StudentFit

Features = Mapping[str, Array]
FILE = "calibration.safetensors"
FORMAT = 1
"""Version of the file; increased when older versions of hf_bam cannot read a new file."""
STUDENT = "student"
"""Beginning of the names of its arrays."""


@dataclass(frozen=True)
class NoveltyFit:
    """Gaussians of the features of a training set, and the novelty of other inputs from the same distribution.

    Attributes:
        reference: (N,) sorted novelty of inputs that are not part of the fit.
        false_alarms: share of inputs from the distribution of the training set that count as outside of it.
    """

    gaussians: LayerGaussians
    reference: Array
    false_alarms: float = setting(above=0, below=1)

    def __post_init__(self) -> None:
        check_fields(self)
        shapes, expected = [], list[tuple[int, ...]]()
        for own in self.gaussians.layers.values():
            size = own.center.size
            shapes += [array.shape for array in own.arrays().values()]
            expected += [(len(own.means), size), (size, size), (size,), (size, size)]
        number = len(self.gaussians.layers)
        shapes += [self.gaussians.center.shape, self.gaussians.scale.shape, self.reference.shape]
        expected += [(number,), (number,), (self.reference.size,)]
        if not number or shapes != expected:
            raise ValueError(f"The arrays of the novelty have shapes {shapes} that do not fit each other.")
        if not all(np.isfinite(array).all() for array in self.arrays().values()):
            raise ValueError("Some numbers of the novelty are not finite.")

    @classmethod
    def fit(cls, features: Features, labels: Array, held_out: Features, false_alarms: float) -> NoveltyFit:
        """Return the fit to features (B, D) of classes (B,), with the novelty of further features (N, D)."""
        # In the precision of the file, so that nothing changes when the predictor is saved and loaded.
        gaussians = LayerGaussians.fit(features, np.unique(labels, return_inverse=True)[1], held_out)
        return cls(gaussians, np.sort(gaussians.scores(held_out)["novelty"]).astype(np.float32), false_alarms)

    @property
    def threshold(self) -> float:
        """Novelty above which an input is not from the distribution of the training set."""
        return quantile(self.reference, self.false_alarms)

    def scores(self, features: Features) -> dict[str, Array]:
        """Return the distances and the novelty of features (B, D) by name."""
        own = {name: gaussians.center.size for name, gaussians in self.gaussians.layers.items()}
        given = {name: x.shape[-1] for name, x in features.items()}
        if given != own:
            raise ValueError(f"The calibration is one of {own}, this model has {given}; fit the predictor again.")
        return self.gaussians.scores(features)

    def fields(self, features: Features) -> list[dict[str, Any]]:
        """Return the fields of results about their novelty, from features (B, D)."""
        found, threshold = self.scores(features), self.threshold
        score, near = found["novelty"], found["mahalanobis"]
        relative = found.get("relative_mahalanobis", np.full(len(near), np.nan))
        columns = (score, percentiles(self.reference, score), near, relative)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [{"novelty": Novelty(*row), "in_distribution": row[0] <= threshold} for row in rows]

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name; those of a layer have its name and a slash in front."""
        own = {"center": self.gaussians.center, "scale": self.gaussians.scale, "reference": self.reference}
        return own | {
            f"{layer}/{name}": array
            for layer, gaussians in self.gaussians.layers.items()
            for name, array in gaussians.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], layers: Iterable[str], false_alarms: float) -> NoveltyFit:
        """Return the inverse of `arrays`; `layers` are the names of the layers in their order."""
        gaussians = {
            layer: FeatureGaussians(**{item.name: arrays[f"{layer}/{item.name}"] for item in fields(FeatureGaussians)})
            for layer in layers
        }
        return cls(LayerGaussians(gaussians, arrays["center"], arrays["scale"]), arrays["reference"], false_alarms)


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
    student: StudentFit | None = None

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
        if self.student is not None:
            described["student"] = "samples from one deterministic pass"
        return described

    def write(self, folder: str | os.PathLike[str], about: Mapping[str, Any]) -> Path:
        """Write the file as a whole, with a description of the predictor in its header, and return its path."""
        numbers: dict[str, Any] = {name: asdict(part) for name in NUMBERS if (part := getattr(self, name)) is not None}
        arrays: dict[str, Array] = {}
        if self.novelty is not None:
            layers = list(self.novelty.gaussians.layers)
            numbers["novelty"] = {"false_alarms": self.novelty.false_alarms, "layers": layers}
            arrays = self.novelty.arrays()
        if self.student is not None:
            arrays |= {f"{STUDENT}/{name}": array for name, array in self.student.arrays().items()}
        header = {"calibration_format": str(FORMAT), "numbers": json.dumps(numbers), "about": json.dumps(dict(about))}
        content = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return tensors.replace(Path(folder, FILE), content, header)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> tuple[Calibration, dict[str, Any]]:
        """Return the calibration in a folder and the description of its predictor.

        Raises:
            ValueError: if the file is damaged, of another program or of a newer version.
        """
        path = Path(folder, FILE)
        header, content = tensors.read(path)
        tensors.check_version(path, header, "calibration_format", FORMAT)
        try:
            arrays = {name: tensor.numpy() for name, tensor in content.items()}
            numbers, about = parse_json(header["numbers"]), dict(parse_json(header["about"]))
            parts: dict[str, Any] = {name: cls(**numbers[name]) for name, cls in NUMBERS.items() if name in numbers}
            if "novelty" in numbers:
                parts["novelty"] = NoveltyFit.from_arrays(arrays, **numbers["novelty"])
            own = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{STUDENT}/")}
            if own:
                parts["student"] = StudentFit.from_arrays(own)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} has a content that this hf_bam does not know: {error!r}") from error
        return cls(**parts), about
