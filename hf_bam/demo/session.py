"""Predictions of a demo: one input at a time, with a chosen number of samples and level of noise."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..patching import get_config, is_patched
from ..prediction import Bam, Plain, Predictor, storage
from ..prediction.inputs import Text
from .attention import TokenWeight, token_weights
from .noise import has_level, with_noise

KINDS = ("classification", "regression", "question-answering", "generation")
"""Heads that the page can show."""
HYPOTHESES = 4
"""Further texts of a generation."""


@dataclass(frozen=True)
class Shown:
    """A result with what the page shows beside it.

    Attributes:
        guarantees: prediction sets and intervals of the predictor hold for these settings.
    """

    item: Text
    result: Any
    tokens: list[TokenWeight]
    guarantees: bool


@dataclass(frozen=True)
class Session:
    """A predictor and the name of its model.

    Attributes:
        name: folder or name on the Hub, for the heading.
    """

    predictor: Predictor
    name: str

    def __post_init__(self) -> None:
        if self.predictor.head_name not in KINDS:
            raise ValueError(
                f"The demo shows models for {', '.join(KINDS)}; the head of {self.name} is "
                f"{self.predictor.head_name!r}."
            )

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str], *, dropout: float | None = None, **options: Any) -> Session:
        """Load a predictor, or the model and the tokenizer of a folder or a repository of the Hub.

        Args:
            dropout: rate of Monte Carlo dropout; None: that of the saved predictor.
            options: arguments of `Predictor.from_pretrained`.
        """
        with storage.named_model(name_or_path):
            stored = storage.load(name_or_path, options)
        if not is_patched(stored.model):
            stored.model.set_attn_implementation("eager")  # others return no weights
        predictor = Predictor(stored.sampler(dropout), stored.tokenizer, **stored.options)
        return cls(stored.calibrate(predictor), str(name_or_path))

    @property
    def title(self) -> str:
        """Short name of the model: that of the run if it is the folder of one."""
        return title_of(self.name)

    @property
    def kind(self) -> str:
        """Name of the head."""
        return self.predictor.head_name

    @property
    def is_random(self) -> bool:
        """True if the predictor draws samples."""
        return self.predictor.sampler.limit != 1

    @property
    def has_noise_level(self) -> bool:
        """True if one setting gives the level of the noise."""
        model = self.predictor.sampler.model
        return self.is_random and is_patched(model) and has_level(get_config(model).settings)

    def predict(self, item: Text, num_samples: int, noise: float = 1.0) -> Shown:
        """Return the prediction of an input.

        Args:
            noise: standard deviation of the log attention weights, relative to the trained model; 0: mean attention.
        """
        predictor = self.at(num_samples, noise)
        (result,) = predictor([item])
        fitted, holds = self.predictor.calibration, predictor.calibration
        kept = holds.sets is not None or holds.intervals is not None
        has_any = fitted.sets is not None or fitted.intervals is not None
        return Shown(item, result, token_weights(predictor, item), kept or not has_any)

    def at(self, num_samples: int, noise: float) -> Predictor:
        """Return the predictor at other settings; its guarantees go where they do not hold."""
        changes: dict[str, Any] = {"num_samples": num_samples}
        if self.kind == "generation":
            changes["hypotheses"] = min(HYPOTHESES, num_samples)
        predictor = self.predictor.with_settings(**changes)
        if noise == 1 or not self.has_noise_level:
            return predictor
        predictor = copy(predictor)
        sampler: Any = predictor.sampler
        if noise == 0:
            predictor.sampler = Plain(sampler.model, sampler.token_budget)
        else:
            predictor.sampler = Bam(with_noise(sampler.model, noise), sampler.token_budget, sampler.dropout)
        predictor.calibration = predictor.calibration.without_guarantees()
        return predictor


def title_of(name: str) -> str:
    """Return a short name of a model: that of the run if it is the folder of one."""
    path = Path(name)
    return path.resolve().parent.name if path.is_dir() and path.name in ("model", "predictor") else path.name
