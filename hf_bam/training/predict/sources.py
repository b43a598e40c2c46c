"""Rows of a prediction, one by one, and the texts in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import datasets

from ...prediction.heads import Head
from ...tasks.base import DataError
from ...tasks.readers import READERS, Record, read_txt
from ...tasks.tables import loading
from .settings import Prediction

FILES = {**READERS, ".txt": read_txt}
"""Readers by the ending of a file."""
Item = str | tuple[str, str]


def records(settings: Prediction) -> Iterator[Record]:
    """Return the rows; raise `DataError` if there are none, or no file and no data set."""
    path = Path(settings.input)
    read = None if path.is_dir() else next((FILES[end] for end in FILES if settings.input.endswith(end)), None)
    rows = numbered(path, dataset(settings)) if read is None else read(path, ())
    first = next(rows, None)
    if first is None:
        raise DataError(f"{settings.input}: expected rows, found none.")
    return islice(chain([first], rows), settings.limit)


def numbered(path: Path, rows: Iterator[dict[str, Any]]) -> Iterator[Record]:
    """Yield the rows of a data set, which is read meanwhile, with their numbers."""
    for number in count(1):
        with loading(f"{path}, row {number}: expected a row"):
            row = next(rows, None)
        if row is None:
            return
        yield Record(path, f"row {number}", row)


def dataset(settings: Prediction) -> Iterator[dict[str, Any]]:
    """Return the rows of a data set: a folder of `save_to_disk`, or a stream of what `load_dataset` takes."""
    path = Path(settings.input)
    if not path.is_dir() and (path.suffix or path.is_absolute()):
        raise DataError(f"{path}: there is no such file or folder of rows ({', '.join(FILES)}).")
    problem = (
        f"{settings.input} cannot be loaded: it is neither a file ({', '.join(FILES)}) nor the folder of a data set, "
        "and the Hub does not have it or cannot be reached"
    )
    with loading(problem):
        if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
            found: Any = datasets.load_from_disk(str(path))
        else:
            found = datasets.load_dataset(settings.input, settings.config_name, streaming=True)
    splits = found if isinstance(found, dict) else {settings.split or "train": found}
    name = settings.split or (next(iter(splits)) if len(splits) == 1 else None)
    if name not in splits:
        raise DataError(
            f"{settings.input} has the splits {', '.join(splits)}; choose one with --split, not {settings.split!r}."
        )
    return iter(splits[name])


def columns(settings: Prediction, run: dict[str, Any], known: type[Head], first: Record) -> list[str]:
    """Return the columns of the texts or images: those of the options, of the run, of the head, or the only one."""
    present = list(first.values)
    options = run.get("options", {})
    usual = [options.get("text_column", known.columns[0])]
    if len(present) == 1 and settings.text_column is None:
        usual = present
    second = options.get("pair_column") or (known.columns[1] if len(known.columns) > 1 else None)
    if second is None and known.optional in present and settings.target_column is None:
        second = known.optional
    names = [settings.text_column or usual[0], settings.pair_column or second, settings.target_column]
    chosen = [name for name in names if name is not None]
    for name in chosen:
        if name not in present:
            raise first.error(
                f"a column {name!r} (--text_column, --pair_column and --target_column name other columns)",
                ", ".join(present),
            )
    return chosen


def item(record: Record, names: Sequence[str], beginning: str = "") -> Item | None:
    """Return the text, the path of an image or the pair of a row; None if it has none.

    Args:
        beginning: text before the first one, which the model expects.
    """
    values = [record.require(names)[name] for name in names]
    for name, value in zip(names, values, strict=True):
        if value is not None and not isinstance(value, str):
            raise record.error(f"a text in column {name!r}", value)
    texts = [value or "" for value in values]
    if not texts[0].strip():
        return None
    texts[0] = beginning + texts[0]
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])
