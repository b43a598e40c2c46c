"""Base class of all tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc
from datasets import Dataset, Value
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..fields import check_fields
from ..prediction import Predictions
from .measures import text_measures

Collator = Callable[[list[dict[str, Any]]], dict[str, Tensor]]


LONGEST_TEXT = 10**6
"""Characters of a text, at most: models read much less, and tokenizers take seconds for more."""


class DataError(ValueError):
    """Error in a data file; the message names the file, the line and the expected content."""


@dataclass
class Data:
    """Rows of a task.

    Attributes:
        train: rows to train on.
        evaluation: labelled sets by name; the first one selects the best checkpoint.
        test: unlabelled sets by name, for prediction files.
        ood: out-of-distribution rows by the name of the evaluation set from which uncertainty should separate them.
    """

    train: Dataset
    evaluation: dict[str, Dataset]
    test: dict[str, Dataset] = field(default_factory=dict)
    ood: dict[str, Dataset] = field(default_factory=dict)

    @property
    def sets(self) -> dict[str, Dataset]:
        """All sets by name, the training rows first."""
        return {
            "train": self.train,
            **self.evaluation,
            **self.test,
            **{f"{name}_ood": rows for name, rows in self.ood.items()},
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {len(rows)}" for name, rows in self.sets.items())

    def check_texts(self) -> None:
        """Raise `DataError` for a text that is longer than `LONGEST_TEXT`."""
        for name, rows in self.sets.items():
            for column, kind in rows.features.items():
                if kind == Value("string"):
                    texts = rows.select_columns(column).with_format("arrow")[:][column]
                    longest = pc.max(pc.utf8_length(texts)).as_py() or 0
                    if longest > LONGEST_TEXT:
                        raise DataError(
                            f"The set {name} has a text of {longest} characters in column {column!r}; at most "
                            f"{LONGEST_TEXT} are read. Cut it, or divide it into several rows."
                        )


@dataclass(frozen=True)
class HubData:
    """Data set of a task on the Hub.

    Attributes:
        config: name of its configuration.
        splits: names of its splits by the names of the evaluation sets.
    """

    id: str
    config: str
    splits: dict[str, str]


class Task(ABC):
    """Data and small functions: load, encode and collate for training; inputs, prediction and score for evaluation.

    A subclass is a frozen dataclass whose fields are the options of the task. Their types, ranges and choices are
    checked here; a `__post_init__` of a subclass calls this one first. Generic code uses these methods only and never
    tests for a subclass. Predictions are made by a [`Predictor`][hf_bam.prediction.Predictor], which reads `inputs`
    with `predictor_options`.
    """

    auto_class: ClassVar[Any] = AutoModel
    """The auto class of transformers that builds the model."""
    greater_is_better: ClassVar[bool] = True
    command: ClassVar[str | None] = None
    """Command that runs this task and others; None: only the command with the name of the task."""
    default_model: ClassVar[str] = "albert-base-v2"
    """Model of a command line that does not name one."""
    default_recipe: ClassVar[str] = "paper"
    """Recipe of a command line that does not name one."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the task in commands, folders and tables."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the score that selects the best checkpoint."""

    @abstractmethod
    def load(self, data_dir: Path | None) -> Data:
        """Return the rows of a local folder or, without one, of the Hub; raise `DataError` for malformed files."""

    def model_settings(self, data: Data) -> dict[str, Any]:
        """Return keywords for the config of the model: number and names of labels, for instance."""
        return {}

    def new_config(self, model: str) -> PretrainedConfig | None:
        """Return the config of a model that `build` makes from scratch; None: the model is pretrained."""
        return None

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Return the model to finetune and its tokenizer; `settings` are further keywords for its config."""
        tokenizer = self.load_tokenizer(model)
        return self.auto_class.from_pretrained(model, **{**self.model_settings(data), **settings}), tokenizer

    def load_tokenizer(self, model: str) -> PreTrainedTokenizerBase:
        """Return the tokenizer of a pretrained model, or the processor of one that reads images."""
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(model)
        return tokenizer

    def input_length(self, max_length: int, tokenizer: PreTrainedTokenizerBase) -> int:
        """Return the number of tokens to which inputs are truncated when `max_length` is wanted."""
        return max_length

    @abstractmethod
    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
        """Return features to train on: `input_ids`, labels and other inputs of the collator.

        A row may give several features.
        """

    @abstractmethod
    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        """Return a function that makes a padded batch of features, without columns that the model does not accept."""

    @property
    def predictor_options(self) -> dict[str, Any]:
        """Settings of a predictor that follow from the options of the task."""
        return {}

    @abstractmethod
    def inputs(self, rows: Dataset) -> list[Any]:
        """Return the rows as inputs of a [`Predictor`][hf_bam.prediction.Predictor]."""

    def texts(self, rows: Dataset) -> list[tuple[str, ...]]:
        """Return the texts of each row, for prediction files; an image is named."""
        return [(text,) if isinstance(text, str) else text for text in self.inputs(rows)]

    def prediction(self, result: Any) -> Any:
        """Return a result of the predictor as the prediction that `score` and `write` take."""
        return result.prediction

    @abstractmethod
    def score(self, rows: Dataset, predictions: list[Any]) -> dict[str, float]:
        """Return the official metrics: fractions where the official script reports them so, percent for texts."""

    @abstractmethod
    def write(self, rows: Dataset, predictions: list[Any], split: str, directory: Path) -> Path:
        """Write the predictions in the official format and return the path of the file."""

    def finish(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Data, max_length: int, folder: Path
    ) -> dict[str, dict[str, float]]:
        """Finish a trained model and return further scores of the labelled sets; most tasks have nothing to do.

        Args:
            max_length: number of tokens to which inputs are truncated.
            folder: for files.
        """
        return {}

    @property
    def hub_data(self) -> HubData | None:
        """Data set on the Hub that `load` reads without a folder, if the scores are those of its splits."""
        return None

    def labels(self, rows: Dataset) -> list[Any] | None:
        """Return the labels as [`compare`][hf_bam.compare] takes them; None for tasks that are not classification."""
        return None

    def measures(self, rows: Dataset, results: Predictions[Any]) -> dict[str, float]:
        """Return the scores of results and measures of their uncertainty, for tasks that are not classification."""
        predictions = [self.prediction(result) for result in results]
        measures = self.score(rows, predictions) | self.uncertainty_measures(self.losses(rows, predictions), results)
        return measures | {"passes": float(results.num_samples.max())}

    def losses(self, rows: Dataset, predictions: list[Any]) -> list[float]:
        """Return the error of each prediction, from 0 to 1: the part of the metric, in percent, that it misses."""
        scores = [self.score(rows.select([i]), [own])[self.metric] for i, own in enumerate(predictions)]
        shares = [min(max(score / 100, 0.0), 1.0) for score in scores]
        return [1 - share for share in shares] if self.greater_is_better else shares

    def references(self, rows: Dataset) -> list[str]:
        """Return the true output of each row as a text, for reports; empty where it is not known."""
        return []

    @property
    def loss_name(self) -> str:
        """Name of the error of a row that `losses` returns."""
        return f"1 - {self.metric.upper()}" if self.greater_is_better else self.metric.upper()

    def uncertainty_measures(self, losses: list[float], results: Predictions[Any]) -> dict[str, float]:
        """Return measures of the uncertainty of results with these errors."""
        return text_measures(losses, results)
