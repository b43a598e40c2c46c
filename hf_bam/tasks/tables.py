"""Tables of the user: files called train, validation (or dev) and test, in any format of `readers`."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset

from .base import LONGEST_TEXT, Data, DataError
from .readers import READERS, Record, ending_of

FORMATS = ", ".join(READERS)


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


def has_test(folder: Path) -> bool:
    """Return whether a folder has a test table, which may be absent."""
    return any((folder / f"test{ending}").exists() for ending in READERS)


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
    train, validation = (read(find(folder, *stems), both) for stems in (("train",), ("validation", "dev")))
    data = Data(pairs(train, both), {"validation": pairs(validation, both)})
    if has_test(folder):
        test = read(find(folder, "test"), [source])
        known = target in test[0].values
        (data.evaluation if known else data.test)["test"] = pairs(test, both if known else [source])
    return data


def pairs(records: list[Record], columns: list[str]) -> Dataset:
    """Return the texts of one or two columns as `source` and `target`."""
    names = ("source", "target")[: len(columns)]
    sides = zip(names, columns, strict=True)
    return Dataset.from_dict({name: [text(record, column) for record in records] for name, column in sides})
