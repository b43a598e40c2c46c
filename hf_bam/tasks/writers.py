"""Writers of files of rows, in parts: only the rows of one call are in memory.

A file is written under a hidden name and renamed at the end, so that a reader never finds half a file.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from ..evaluation.tables import column_names

Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]
"""Function that adds rows to a file."""


@contextmanager
def writing(path: Path | None) -> Iterator[Write]:
    """Open a file for rows, by its ending; None: standard output, as JSON lines."""
    if path is None:
        yield _lines(sys.stdout)
        return
    check_ending(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with WRITERS[path.suffix](unfinished) as write:
            yield write
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_ending(path: Path) -> None:
    """Raise `ValueError` if there is no writer for the ending of a file."""
    if path.suffix not in WRITERS:
        raise ValueError(f"{path} has another ending than {', '.join(WRITERS)}; choose one of these formats.")


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write a whole file, by its ending."""
    with writing(path) as write:
        write(rows)
    return path


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    """Comma-separated values; lists and dictionaries are JSON, numbers have six digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        yield _table(csv.writer(file, lineterminator="\n").writerow)


@contextmanager
def _tsv(path: Path) -> Iterator[Write]:
    """Tab-separated values without quotes; tabs and line breaks within a value become spaces."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield _table(lambda cells: file.write("\t".join(" ".join(cell.split()) for cell in cells) + "\n"))


@contextmanager
def _jsonl(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield _lines(file)


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    """Parquet, with the types of the first rows; columns without any value among them are text."""
    writer: ParquetWriter | None = None

    def write(rows: Sequence[Row]) -> None:
        nonlocal writer
        names = column_names(rows)
        full = [{name: finite(row.get(name)) for name in names} for row in rows]
        if writer is None:
            schema = pa.Table.from_pylist(full).schema
            types = [pa.string() if pa.types.is_null(item.type) else item.type for item in schema]
            writer = ParquetWriter(path, pa.schema(list(zip(schema.names, types, strict=True))))
        _check_columns(names, writer.schema.names)
        writer.write_table(pa.Table.from_pylist(full, writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _txt(path: Path) -> Iterator[Write]:
    """The predictions alone, one a line."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda rows: file.writelines(f"{' '.join(_cell(row.get('prediction')).split())}\n" for row in rows)


WRITERS = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet, ".txt": _txt}
"""Writers by the ending of a file."""


def _lines(file: IO[str]) -> Write:
    """Return a function that writes one JSON object a line."""

    def write(rows: Sequence[Row]) -> None:
        for row in rows:
            file.write(json.dumps(finite(row), ensure_ascii=False, allow_nan=False, default=str) + "\n")

    return write


def _table(write_cells: Callable[[list[str]], object]) -> Write:
    """Return a function that writes a header before the first rows."""
    header: list[str] = []

    def write(rows: Sequence[Row]) -> None:
        names = column_names(rows)
        if not header:
            header.extend(names)
            write_cells(header)
        _check_columns(names, header)
        for row in rows:
            write_cells([_cell(row.get(name)) for name in header])

    return write


def _check_columns(names: Sequence[str], header: Sequence[str]) -> None:
    for name in names:
        if name not in header:
            raise ValueError(f"A later row has a column {name!r} that the first rows do not have; write .jsonl.")


def _cell(value: Any) -> str:
    value = finite(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


def finite(value: Any) -> Any:
    """Return a value with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: finite(own) for name, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
