"""Classification or regression on the user's own files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from ..fields import is_number
from . import tables
from .base import Data, DataError
from .classification import SentenceTask, make_rows
from .glue_metrics import correlations, macro_f1
from .readers import INTEGER, NUMBER, Record
from .tables import FORMATS

MISSING = r"|(?i:[-+]?(nan|inf|infinity)|null|<na>|nat)|None"
"""Values that programs write for a missing label. `none`, `n/a` and `NA` are names of classes in some data."""


LONGEST_NAME = 1000
"""Characters of the name of a class, at most."""


@dataclass(frozen=True)
class Custom(SentenceTask):
    """Sentences or pairs with labels, from files with the names train, validation (or dev) and test, or from the Hub.

    Without a validation set one row of ten is held out of the training set. Labels are names or integers, and the
    classes are those of the training set; whitespace around them is ignored. A missing value (nothing, nan, null,
    None) is an error. With `regression` labels are numbers. A test set may be absent. With labels it is a further set
    to evaluate on, without them a set to predict.
    """

    text_column: str
    """Column of the sentence."""
    label_column: str
    """Column of the label."""
    pair_column: str | None = None
    """Column of the second sentence, for pairs."""
    regression: bool = False
    """The label is a number, not a class."""
    dataset: str | None = None
    """Data set with splits train, validation and test on the Hub, instead of data_dir: NAME or NAME:SUBSET."""

    @property
    def name(self) -> str:
        return "custom"

    @property
    def metric(self) -> str:
        return "average" if self.regression else "accuracy"

    @property
    def text_columns(self) -> list[str]:
        return [self.text_column] if self.pair_column is None else [self.text_column, self.pair_column]

    def measure(self, labels: list[Any], predictions: list[Any]) -> dict[str, float]:
        """Return accuracy and macro F1; for regression the correlations and the root of the mean squared error."""
        if not self.regression:
            return macro_f1(labels, predictions)
        scores = correlations(labels, predictions)
        return {**scores, "rmse": float(np.sqrt(np.mean(np.square(np.subtract(labels, predictions)))))}

    def load(self, data_dir: Path | None) -> Data:
        if data_dir is None and self.dataset is None:
            raise DataError(f"The task custom needs data_dir, a folder with a file train ({FORMATS}), or dataset.")
        if data_dir is not None and self.dataset is not None:
            raise DataError(f"data_dir={str(data_dir)!r} and dataset={self.dataset!r} are both given; leave one out.")
        columns = self.text_columns, self.label_column
        if data_dir is None:
            sets = tables.read_hub(self.dataset or "", *columns)
        else:
            sets = tables.read_sets(Path(data_dir), *columns)
        train, validation = tables.with_validation(sets, self.text_column)
        names = [] if self.regression else self._classes(train)
        data = Data(self._rows(train, names), {"validation": self._rows(validation, names)})
        if "test" in sets:
            test = sets["test"]
            known = any(self.label_column in record.values for record in test)
            (data.evaluation if known else data.test)["test"] = self._rows(test, names, labelled=known)
        return data

    def read(self, file: Path, names: Sequence[str], labelled: bool = True) -> Dataset:
        """Return the rows of one file; `names` are the classes, none of them for a regression."""
        return self._rows(self._read(file, labelled), names, labelled)

    def _read(self, file: Path, labelled: bool) -> list[Record]:
        columns = [*self.text_columns, self.label_column] if labelled else self.text_columns
        return tables.read(file, columns)

    def _rows(self, records: list[Record], names: Sequence[str], labelled: bool = True) -> Dataset:
        texts = [[tables.text(record, column) for record in records] for column in self.text_columns]
        labels = [self._label(record, names) if labelled else None for record in records]
        return make_rows(texts, labels, names)

    def _classes(self, records: list[Record]) -> list[str]:
        """Return the classes that occur: integers in their order, other names in alphabetical order."""
        names = sorted({self._class(record) for record in records})
        if all(re.fullmatch(NUMBER, name) for name in names):  # 0.0 and 1.0 are 0 and 1 that another program wrote
            names = sorted({whole(name) for name in names})
        if len(names) < 2:
            raise records[0].error(f"at least two classes in column {self.label_column!r}", names)
        if all(re.fullmatch(INTEGER, name) for name in names):
            return sorted(names, key=int)
        if all(re.fullmatch(NUMBER, name) for name in names):
            first = next(record for record in records if not re.fullmatch(INTEGER, whole(self._class(record))))
            raise self._not_a_class(first)
        return names

    def _class(self, record: Record) -> str:
        value = record.values.get(self.label_column)
        if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
            raise self._not_a_class(record)
        name = str(value).strip() if isinstance(value, (str, int, float)) else ""
        if re.fullmatch(MISSING, name) or len(name) > LONGEST_NAME:
            raise record.error(f"a label in column {self.label_column!r}", value)
        return name

    def _not_a_class(self, record: Record) -> DataError:
        expected = f"a class in column {self.label_column!r} (a name or an integer; numbers need regression=True)"
        return record.error(expected, record[self.label_column])

    def _label(self, record: Record, names: Sequence[str]) -> int | float:
        if self.regression:
            return _number(record, self.label_column)
        name = self._class(record)
        if name not in names and whole(name) in names:
            name = whole(name)
        if name not in names:
            raise record.error(f"a class of the training file ({', '.join(names)})", name)
        return names.index(name)


def whole(name: str) -> str:
    """Return a whole number without its decimals, which are zeros; any other name as it is."""
    found = re.fullmatch(rf"({INTEGER})\.0*", name)
    return found[1] if found else name


def _number(record: Record, column: str) -> float:
    value = record.values.get(column)
    text = str(value).strip() if isinstance(value, (str, Decimal)) or is_number(value) else ""
    if not re.fullmatch(NUMBER, text) or not math.isfinite(float(text)):
        raise record.error(f"a number in column {column!r}", value)
    return float(text)
