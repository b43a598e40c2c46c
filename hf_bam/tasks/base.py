"""What a task is to the training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from .fields import check_fields

Collator = Callable[[list[dict[str, Any]]], dict[str, Tensor]]
Outputs = list[dict[str, NDArray[np.float64]]]
"""What the model said of every feature, in the order of the features."""


class DataError(ValueError):
    """A file is not what was expected; the message names the file, the line and what was expected there."""


@dataclass
class Data:
    """The rows of a task, as they are in its files.

    Attributes:
        evaluation: labelled sets by name; the first one chooses the best checkpoint.
        test: unlabelled sets by name, for prediction files.
    """

    train: Dataset
    evaluation: dict[str, Dataset]
    test: dict[str, Dataset] = field(default_factory=dict)

    @property
    def sets(self) -> dict[str, Dataset]:
        """All of them by name, the training rows first."""
        return {"train": self.train, **self.evaluation, **self.test}

    def __str__(self) -> str:
        return ", ".join(f"{name} {len(rows)}" for name, rows in self.sets.items())


class Task(ABC):
    """Data and small functions: load, encode, collate, forward, decode, score.

    A subclass is a frozen dataclass whose fields are the options of the task; the loop knows nothing else of it. Their
    types are checked here; a `__post_init__` of its own calls this one first.
    Rows are what the files hold, features are what the model takes (a long context makes several features of a row).
    """

    auto_class: ClassVar[Any] = AutoModel
    """Which of transformers' auto classes makes the model."""
    greater_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @abstractmethod
    def name(self) -> str:
        """The task's name in commands, folders and tables."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """The score that chooses the best checkpoint."""

    @abstractmethod
    def load(self, data_dir: Path | None) -> Data:
        """The rows, from a local folder or, without one, by name from the Hub; DataError where they are not right."""

    def model_settings(self, data: Data) -> dict[str, Any]:
        """Keywords for the model's config: number and names of labels, for instance."""
        return {}

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The model to finetune and its tokenizer; `settings` are further keywords for the model's config."""
        tokenizer = AutoTokenizer.from_pretrained(model)
        return self.auto_class.from_pretrained(model, **{**self.model_settings(data), **settings}), tokenizer

    @abstractmethod
    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool) -> Dataset:
        """Features: `input_ids` and whatever else the collator takes, with the labels when `training`."""

    @abstractmethod
    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        """Makes a padded batch of features. Columns that the model does not take are left out."""

    @abstractmethod
    def forward(self, model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """What evaluation keeps of a batch, the batch dimension first; a batch has no labels here."""

    @abstractmethod
    def decode(
        self, rows: Dataset, features: Dataset, outputs: Outputs, tokenizer: PreTrainedTokenizerBase
    ) -> list[Any]:
        """One prediction for each row."""

    @abstractmethod
    def score(self, rows: Dataset, predictions: list[Any]) -> dict[str, float]:
        """The task's official metrics; fractions where the official script reports them so, percent for texts."""

    @abstractmethod
    def write(self, rows: Dataset, predictions: list[Any], split: str, directory: Path) -> Path:
        """Writes the predictions in the official format and returns the file."""

    @abstractmethod
    def inputs(self, rows: Dataset) -> list[Any]:
        """The rows as [`Predictor`][hf_bam.prediction.Predictor] takes them."""

    def labels(self, rows: Dataset) -> list[Any] | None:
        """The labels as [`compare`][hf_bam.compare] takes them; None for tasks that are not classification."""
        return None
