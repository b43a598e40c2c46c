"""Base class of predictors: settings, inputs, and the calls that return results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic

import numpy as np
from transformers import PreTrainedTokenizerBase
from typing_extensions import TypeVar, Unpack

from ..evaluation.tables import Table
from ..patching.state import base_model
from .calibration import Calibration
from .defaults import head_of, longest
from .heads import HEADS, Head, head_class, labels_of
from .results import Array, Predictions, Result
from .running import run, run_everywhere
from .samplers import Sampler
from .settings import NUM_SAMPLES, FurtherSettings, Settings

Columns = str | tuple[str, str] | None
Own = TypeVar("Own", bound=Result, default=Result)
PROBABILITIES = ("classification", "multi-label")
"""Heads whose samples are probabilities of classes."""


class BasePredictor(Generic[Own]):
    """Predictor without fits and files; see [`Predictor`][hf_bam.prediction.Predictor]."""

    def __init__(
        self,
        sampler: Sampler,
        tokenizer: PreTrainedTokenizerBase,
        num_samples: int = NUM_SAMPLES,
        *,
        head: str | None = None,
        batch_size: int = 16,
        seed: int | None = 0,
        max_length: int | None = None,
        progress: bool | None = None,
        **settings: Unpack[FurtherSettings],
    ) -> None:
        self.sampler = sampler
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.progress = progress
        self.calibration = Calibration()
        self.table: Table | None = None
        limit = longest(sampler.model, tokenizer) if max_length is None else max_length
        self.settings = Settings(num_samples=num_samples, max_length=limit, seed=seed, **settings)
        self.head_name = head or head_of(base_model(sampler.model))
        if self.head_name not in HEADS:
            raise ValueError(f"head={self.head_name!r} is not known; choose one of {', '.join(HEADS)}.")
        if self.settings.adaptive and not HEADS[self.head_name].adaptive:
            raise ValueError(f"adaptive=True is not possible with head={self.head_name!r}; it needs classification.")

    def __call__(self, inputs: Any, columns: Columns = None) -> Predictions[Own]:
        """Return the results of all inputs.

        Args:
            inputs: a string, a list of strings, of pairs or of dictionaries, a `datasets.Dataset` or
                `IterableDataset`, or a DataFrame or Series of pandas.
            columns: for a table or dictionaries, the column of the text or the two columns of a pair; by default
                "text", and "text_pair" if it is there.

        In a distributed run every process predicts its part of the inputs, and all processes get all results.
        """
        return Predictions(self._everything(inputs, columns, "predict"))

    def stream(self, inputs: Any, columns: Columns = None) -> Iterator[Own]:
        """Yield the results one by one, in order, without keeping them."""
        return run(self, self.items(inputs, columns))

    def predict(self, inputs: Any, columns: Columns = None) -> Array:
        """Return the predictions alone, (B,): names of classes, numbers, answers or texts; as in scikit-learn."""
        rows = [result.row()["prediction"] for result in self(inputs, columns)]
        if rows and isinstance(rows[0], list):  # of several labels each
            return np.fromiter(rows, dtype=object, count=len(rows))
        return np.array(rows)

    def predict_proba(self, inputs: Any, columns: Columns = None) -> Array:
        """Return the mean probabilities, (B, C), with classes in the order of `classes_`; as in scikit-learn."""
        if self.head_name not in PROBABILITIES:
            raise ValueError(
                f"predict_proba() needs head={' or '.join(map(repr, PROBABILITIES))}; this predictor has "
                f"head={self.head_name!r}."
            )
        results: list[Any] = list(self(inputs, columns))
        means = [result.samples.mean(axis=0) for result in results]
        return np.stack(means) if means else np.zeros((0, len(self.label_names)))

    @property
    def classes_(self) -> Array:
        """Names of the classes, (C,), as in scikit-learn."""
        return np.array(self.label_names)

    def score_targets(self, inputs: Any, targets: Sequence[str] | str, columns: Columns = None) -> Predictions[Own]:
        """Return the scores of given texts, the translations or continuations of the inputs, token by token.

        Every sample reads the target. A result is a [`Generation`][hf_bam.prediction.Generation] with the target as
        its text: log-probability and entropies of every token, and of the whole.

        Args:
            inputs: single texts, as for a call.
            targets: one for each input. A decoder continues its input with it, so it begins with a space where one
                belongs.
        """
        if self.head_name != "generation":
            raise ValueError(f"score_targets() needs head='generation'; this predictor has head={self.head_name!r}.")
        texts = list(self.items(inputs, columns))
        given = [targets] if isinstance(targets, str) else list(targets)
        if len(given) != len(texts):
            raise ValueError(f"There are {len(given)} targets for {len(texts)} inputs; give one for each.")
        for index, (text, target) in enumerate(zip(texts, given, strict=True)):
            if not isinstance(text, str) or not isinstance(target, str):
                raise TypeError(f"inputs[{index}] and targets[{index}] must be single texts.")
        pairs = list(zip(texts, given, strict=True))
        return Predictions(run_everywhere(self, pairs, "score_targets"))

    @property
    def head_class(self) -> type[Head]:
        """Class of the head: that of its name, for texts or images."""
        return head_class(self.head_name, self.sampler.model)

    @property
    def label_names(self) -> list[str]:
        return labels_of(self.sampler.model)

    def items(self, inputs: Any, columns: Columns = None) -> Iterable[Any]:
        """Return the inputs one by one, checked as they are read."""
        names = (columns,) if isinstance(columns, str) else columns
        return self.head_class.read(inputs, names, self.settings.allow_empty)

    def head(self, *, features: bool = False) -> Head:
        """Return a head for the inputs of one call; novelty needs features, whatever the argument says."""
        cls, calibration = self.head_class, self.calibration
        needs_features = features or calibration.novelty is not None
        number = cls.num_outputs(self.sampler.model) if needs_features else None
        return cls(self.sampler.ready(number), self.tokenizer, self.settings, calibration)

    def _everything(self, inputs: Any, columns: Columns, method: str) -> list[Any]:
        """Return what a method of the head returns for all inputs."""
        return run_everywhere(self, list(self.items(inputs, columns)), method)
