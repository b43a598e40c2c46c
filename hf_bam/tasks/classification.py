"""Classification and regression of sentences and of pairs of sentences."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
from datasets import ClassLabel, Dataset, Features, Value
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..patching.state import base_model
from ..prediction import Predictions
from .base import Collator, Data, Task
from .glue_metrics import only_accuracy
from .measures import regression_measures

TEXTS = ("sentence1", "sentence2")


def make_rows(texts: Sequence[Sequence[str]], labels: Sequence[Any], names: Sequence[str], **columns: Any) -> Dataset:
    """Return rows with `sentence1`, `sentence2` for pairs, `label`, and `idx` for prediction files.

    Args:
        texts: one column of sentences, or two.
        labels: indices of `names`, or numbers where there are no names; None for an unknown label.
        columns: further columns of numbers; `idx` is the position of the row unless it is given.
    """
    values = {**dict(zip(TEXTS, texts, strict=False)), "label": labels, "idx": range(len(labels)), **columns}
    types: dict[str, Any] = dict.fromkeys(values, Value("float64")) | dict.fromkeys(
        TEXTS[: len(texts)], Value("string")
    )
    if names:
        types["label"] = ClassLabel(names=list(names))
    types["idx"] = Value("int64")
    return Dataset.from_dict({name: list(column) for name, column in values.items()}, features=Features(types))


def label_names(rows: Dataset) -> list[str]:
    """Return the classes in the order of their indices; none when the label is a number."""
    label = rows.features["label"]
    return list(label.names) if isinstance(label, ClassLabel) else []


class SentenceTask(Task):
    """Classification, or regression where the label is a number. Subclasses load rows; the score is the accuracy.

    The names of the classes are part of the rows. A prediction is the index of a class, or a number.
    """

    auto_class: ClassVar[Any] = AutoModelForSequenceClassification
    command: ClassVar[str | None] = "glue"

    @property
    def metric(self) -> str:
        return "accuracy"

    def measure(self, labels: list[Any], predictions: list[Any]) -> dict[str, float]:
        """Return the scores of predictions for rows with these labels."""
        return only_accuracy(labels, predictions)

    def model_settings(self, data: Data) -> dict[str, Any]:
        names = label_names(data.train)
        if not names:
            return {"num_labels": 1, "problem_type": "regression"}
        return {
            "num_labels": len(names),
            "id2label": dict(enumerate(names)),
            "label2id": {name: index for index, name in enumerate(names)},
            "problem_type": "single_label_classification",
        }

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
        columns = [name for name in TEXTS if name in rows.column_names]

        def features(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
            texts = [batch[name] for name in columns]
            return dict(tokenizer(*texts, truncation=True, max_length=max_length)) | {"labels": batch["label"]}

        # A random fingerprint: hashing a tokenizer is slow, and rows that are kept in memory need no name on disk.
        options = {"keep_in_memory": True, "new_fingerprint": uuid.uuid4().hex, "remove_columns": rows.column_names}
        with quiet():
            return rows.map(features, batched=True, **options)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        accepted = inspect.signature(base_model(model).forward).parameters  # PEFT's passes all on
        names = [name for name in (*tokenizer.model_input_names, "labels") if name in accepted]
        return PaddingCollator(DataCollatorWithPadding(tokenizer), tuple(names))

    def inputs(self, rows: Dataset) -> list[Any]:
        columns = [list(rows[name]) for name in TEXTS if name in rows.column_names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def score(self, rows: Dataset, predictions: list[Any]) -> dict[str, float]:
        labels = list(rows["label"])
        if None in labels:
            raise ValueError("These rows have no labels; only the evaluation sets can be scored.")
        return self.measure(labels, predictions)

    def write(self, rows: Dataset, predictions: list[Any], split: str, directory: Path) -> Path:
        """Write a file with a header and the columns `index` and `prediction`."""
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{self.file_stem(split)}.tsv"
        names = label_names(rows)
        lines = [f"{i}\t{self.spell(p, names)}\n" for i, p in zip(rows["idx"], predictions, strict=True)]
        file.write_text("".join(["index\tprediction\n", *lines]), encoding="utf-8", newline="\n")
        return file

    def file_stem(self, split: str) -> str:
        """Return the name of the prediction file of a set, without its ending."""
        return f"{self.name}-{split}"

    def spell(self, prediction: Any, names: list[str]) -> str:
        """Return a prediction as it is written to a prediction file."""
        return names[prediction] if names else f"{prediction:.6g}"

    def labels(self, rows: Dataset) -> list[Any] | None:
        return list(rows["label"]) if label_names(rows) else None

    def losses(self, rows: Dataset, predictions: list[Any]) -> list[float]:
        """Return the absolute error of each prediction of a regression."""
        return [abs(own - label) for own, label in zip(predictions, rows["label"], strict=True)]

    @property
    def loss_name(self) -> str:
        return "absolute error"

    def references(self, rows: Dataset) -> list[str]:
        names = label_names(rows)
        return [names[label] if names else f"{label:.4g}" for label in rows["label"]]

    def measures(self, rows: Dataset, results: Predictions[Any]) -> dict[str, float]:
        """Return the scores of a regression and measures of its uncertainty."""
        scores = self.score(rows, [self.prediction(result) for result in results])
        measures = regression_measures(list(rows["label"]), results)
        return scores | measures | {"passes": float(results.num_samples.max())}


@dataclass(frozen=True)
class PaddingCollator:
    """Collator that pads a batch to its longest feature; a class, so that it can be sent to worker processes.

    Attributes:
        names: the columns that the model accepts.
    """

    pad: DataCollatorWithPadding
    names: tuple[str, ...]

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Tensor]:
        return dict(
            self.pad([{name: feature[name] for name in self.names if name in feature} for feature in features])
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bars of datasets, of which there would be one for each set and each process."""
    if datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
