"""One sentence, or a pair of them, and a class or a number."""

from __future__ import annotations

import inspect
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
import numpy as np
from datasets import ClassLabel, Dataset, Features, Value
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..patching.state import base_model
from .base import Collator, Data, Outputs, Task

TEXTS = ("sentence1", "sentence2")


def make_rows(texts: Sequence[Sequence[str]], labels: Sequence[Any], names: Sequence[str], **columns: Any) -> Dataset:
    """Rows as the task takes them: `sentence1`, `sentence2` for pairs, `label`, and `idx` for prediction files.

    Args:
        texts: one column of sentences, or two.
        labels: indices of `names`, or numbers where there are no names; None where a label is not known.
        columns: numbers to keep with each row; `idx` is the position of the row unless it is given.
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
    """The classes, in the order of their indices; none when the label is a number."""
    label = rows.features["label"]
    return list(label.names) if isinstance(label, ClassLabel) else []


class SentenceTask(Task):
    """Classification, or regression where the label is a number. Subclasses load rows and say what is measured.

    The names of the classes are part of the rows. A prediction is the index of a class, or a number.
    """

    auto_class: ClassVar[Any] = AutoModelForSequenceClassification

    @abstractmethod
    def measure(self, labels: list[Any], predictions: list[Any]) -> dict[str, float]:
        """The scores of predictions for rows with these labels."""

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

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool) -> Dataset:
        columns = [name for name in TEXTS if name in rows.column_names]

        def features(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
            texts = [batch[name] for name in columns]
            encoded = dict(tokenizer(*texts, truncation=True, max_length=max_length))
            return encoded | {"labels": batch["label"]} if training else encoded

        # A random fingerprint: hashing a tokenizer is slow, and what is kept in memory needs no name on disk.
        options = {"keep_in_memory": True, "new_fingerprint": uuid.uuid4().hex, "remove_columns": rows.column_names}
        with quiet():
            return rows.map(features, batched=True, **options)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        taken = inspect.signature(base_model(model).forward).parameters  # PEFT passes all on
        names = [name for name in (*tokenizer.model_input_names, "labels") if name in taken]
        return PaddingCollator(DataCollatorWithPadding(tokenizer), tuple(names))

    def forward(self, model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"logits": model(**batch).logits}

    def decode(
        self, rows: Dataset, features: Dataset, outputs: Outputs, tokenizer: PreTrainedTokenizerBase
    ) -> list[Any]:
        logits = np.stack([output["logits"] for output in outputs])  # (N, C)
        if not np.isfinite(logits).all():
            wrong = int((~np.isfinite(logits)).any(axis=-1).sum())
            raise ValueError(f"{wrong} of {len(logits)} outputs are not finite: training has diverged.")
        return (logits.argmax(axis=-1) if label_names(rows) else logits[:, 0]).tolist()

    def score(self, rows: Dataset, predictions: list[Any]) -> dict[str, float]:
        labels = list(rows["label"])
        if None in labels:
            raise ValueError("These rows have no labels; only the evaluation sets can be scored.")
        return self.measure(labels, predictions)

    def write(self, rows: Dataset, predictions: list[Any], split: str, directory: Path) -> Path:
        """A file with a header and the columns `index` and `prediction`."""
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{self.file_stem(split)}.tsv"
        names = label_names(rows)
        lines = [f"{i}\t{self.spell(p, names)}\n" for i, p in zip(rows["idx"], predictions, strict=True)]
        file.write_text("".join(["index\tprediction\n", *lines]), encoding="utf-8", newline="\n")
        return file

    def file_stem(self, split: str) -> str:
        """The name of a set's prediction file."""
        return f"{self.name}-{split}"

    def spell(self, prediction: Any, names: list[str]) -> str:
        """A prediction as it stands in a prediction file."""
        return names[prediction] if names else f"{prediction:.6g}"

    def inputs(self, rows: Dataset) -> list[Any]:
        columns = [list(rows[name]) for name in TEXTS if name in rows.column_names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def labels(self, rows: Dataset) -> list[Any] | None:
        return list(rows["label"]) if label_names(rows) else None


@dataclass(frozen=True)
class PaddingCollator:
    """Pads a batch to its longest feature; a class, so that worker processes can be given it.

    Attributes:
        names: the columns that the model takes.
    """

    pad: DataCollatorWithPadding
    names: tuple[str, ...]

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Tensor]:
        return dict(
            self.pad([{name: feature[name] for name in self.names if name in feature} for feature in features])
        )


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of datasets: they would be one for each set and each process."""
    if datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
