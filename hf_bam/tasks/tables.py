"""Tables of the user: files called train, validation (or dev) and test, in any format of `readers`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, load_dataset

from ..fields import shown
from .base import LONGEST_TEXT, Data, DataError
from .readers import READERS, Record, ending_of

Sets = dict[str, list[Record]]
"""Rows by the name of their set."""
logger = logging.getLogger(__name__)
FORMATS = ", ".join(ending for ending in READERS if not ending.endswith(".gz"))
"""Endings of tables; those of text may have `.gz` after them."""


def has_tables(folder: Path) -> bool:
    """Return whether a folder has a training table."""
    return any((folder / f"train{ending}").exists() for ending in READERS)


def find(folder: Path, *stems: str) -> Path:
    """Return the one file of a folder with one of these names."""
    files = [folder / f"{stem}{ending}" for stem in stems for ending in READERS]
    present = [file for file in files if file.exists()]
    if len(present) == 1:
        return present[0]
    found = ", ".join(file.name for file in present) or "none"
    raise DataError(f"{folder}: expected one file called {' or '.join(stems)} ({FORMATS}), found {found}.")


def read_sets(folder: Path, texts: Sequence[str], target: str) -> Sets:
    """Return the rows of a folder: of the file train, and of validation (or dev) and test if there are such.

    All have the columns `texts`, and all but test the column `target`.
    """
    stems = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}
    there = {
        name: names
        for name, names in stems.items()
        if name == "train" or any((folder / f"{stem}{ending}").exists() for stem in names for ending in READERS)
    }
    return {name: read(find(folder, *names), _columns(name, texts, target)) for name, names in there.items()}


@contextmanager
def loading(problem: str) -> Iterator[None]:
    """Raise `DataError` for any error of `datasets` in this context; it has many for what a folder may contain."""
    try:
        yield
    except Exception as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{problem}: {line}") from error


def read_hub(name: str, texts: Sequence[str], target: str) -> Sets:
    """Return the same of a data set on the Hub, or in a folder that `load_dataset` reads; NAME or NAME:SUBSET."""
    with loading(f"dataset={shown(name)} cannot be loaded from the Hub"):
        found = load_dataset(*name.split(":", 1))
    if "train" not in found:
        raise DataError(f"dataset={name!r} has no split train; it has {', '.join(map(str, found))}.")
    sets: Sets = {}
    for split in (split for split in ("train", "validation", "test") if split in found):
        columns, rows = _columns(split, texts, target), enumerate(_named(found[split]), 1)
        sets[split] = [Record(Path(name), f"{split}, row {number}", row).require(columns) for number, row in rows]
        if not sets[split]:
            raise DataError(f"dataset={name!r}: expected rows in {split}, found none.")
    return sets


def _columns(name: str, texts: Sequence[str], target: str) -> list[str]:
    return [*texts] if name == "test" else [*texts, target]


def _named(rows: Dataset) -> Iterator[dict[str, Any]]:
    """Yield rows with the names of classes instead of their indices; -1 is no class."""
    classes = {name: kind for name, kind in rows.features.items() if isinstance(kind, ClassLabel)}
    for row in rows:
        yield {
            name: classes[name].int2str(value) if name in classes and value is not None else value
            for name, value in row.items()
            if name not in classes or value != -1
        }


def with_validation(sets: Sets, column: str) -> tuple[list[Record], list[Record]]:
    """Return the rows to train on and to evaluate on: one of ten is held out, if there is no validation set.

    A hash of a column of texts decides, so that equal texts stay together.
    """
    train = sets["train"]
    if "validation" in sets:
        return train, sets["validation"]
    digests = (sha256(str(own[column]).encode(errors="replace")).digest() for own in train)
    held_out = [int.from_bytes(digest[:4], "big") % 10 == 0 for digest in digests]
    if len(set(held_out)) == 1:  # too few rows
        held_out = [number % 10 == 9 or number == len(train) - 1 for number in range(len(train))]
    parts = [[own for own, out in zip(train, held_out, strict=True) if out is side] for side in (False, True)]
    path = train[0].path
    if not all(parts):
        raise DataError(f"{path}: expected two rows at least, to hold one out for validation.")
    logger.warning("%s: there is no validation set; %d of %d rows are held out.", path, len(parts[1]), len(train))
    return parts[0], parts[1]


def read(file: Path, columns: list[str]) -> list[Record]:
    """Return the rows of a table; none is an error."""
    ending = ending_of(file)
    if ending is None:
        raise DataError(f"{file}: expected a file that ends in {FORMATS}.")
    records = list(READERS[ending](file, columns))
    if not records:
        raise DataError(f"{file}: expected rows, found none.")
    return records


def text(record: Record, column: str) -> str:
    """Return the text in a column; an empty one is an error."""
    value = record[column]
    if not isinstance(value, str) or not value.strip():
        raise record.error(f"a text in column {column!r}", value)
    if len(value) > LONGEST_TEXT:
        raise record.error(f"a text of at most {LONGEST_TEXT} characters in column {column!r}", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a pair of surrogates, which JSON can spell
        raise record.error(f"Unicode text in column {column!r}", value) from error
    return value


def read_pairs(folder: Path, source: str, target: str) -> Data:
    """Return rows with columns `source` and `target`, from two columns of tables.

    A test table without the column of the target is a set without labels.
    """
    both = [source, target]
    sets = read_sets(folder, [source], target)
    train, validation = with_validation(sets, source)
    data = Data(pairs(train, both), {"validation": pairs(validation, both)})
    if "test" in sets:
        test = sets["test"]
        known = target in test[0].values
        (data.evaluation if known else data.test)["test"] = pairs(test, both if known else [source])
    return data


def pairs(records: list[Record], columns: list[str]) -> Dataset:
    """Return the texts of one or two columns as `source` and `target`."""
    names = ("source", "target")[: len(columns)]
    sides = zip(names, columns, strict=True)
    return Dataset.from_dict({name: [text(record, column) for record in records] for name, column in sides})
