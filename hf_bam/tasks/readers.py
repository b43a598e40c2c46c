"""Readers of files of rows. Every row knows its line, for error messages.

Text is UTF-8, with or without a byte order mark, and only a line feed ends a line: the other characters that Unicode
counts as line ends occur within sentences. Text files may be compressed with gzip.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from pyarrow import ArrowException
from pyarrow.parquet import ParquetFile

from ..fields import parse_json, shown
from .base import LONGEST_TEXT, DataError

Fields = Iterator[tuple[int, list[str]]]
INTEGER = r"[-+]?[0-9]+"
NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
"""Numbers in files; Python would also accept 1_000 and nan."""


@dataclass(frozen=True)
class Record:
    """A row and its position: a line of a text file, from 1 on, or a row of a file without lines."""

    path: Path
    place: str
    values: dict[str, Any]

    def __getitem__(self, column: str) -> Any:
        return self.values[column]

    def error(self, expected: str, found: Any) -> DataError:
        return error(self.path, self.place, expected, shown(found))

    def require(self, columns: Sequence[str]) -> Record:
        """Return the record if it has these columns, or raise `DataError`."""
        _require(self.path, self.place, columns, self.values)
        return self


def error(path: Path, place: str, expected: str, found: str) -> DataError:
    return DataError(f"{path}, {place}: expected {expected}, found {found}.")


def read_tsv(
    path: Path, columns: Sequence[str], header: Sequence[str] = (), broken: list[DataError] | None = None
) -> Iterator[Record]:
    """Yield the rows of a file with tabs between the columns. Quotes are text.

    Args:
        columns: required columns.
        header: names of the columns, if the file has no header.
        broken: list for the errors of lines with too few or too many columns, which are then skipped.
    """
    fields = ((number, line.rstrip("\r").split("\t")) for number, line in _lines(path) if line.strip())
    return _records(path, fields, columns, header, broken)


def read_csv(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Yield the rows of a file with commas between the columns; double quotes enclose commas and line ends."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_TEXT))  # a setting of the whole process
    return _records(path, _csv_fields(path), columns)


def read_json(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Yield the objects of a file that is one JSON list, or that has one object a line."""
    first = next((line for _, line in _lines(path) if line.strip()), "")
    is_list = first.lstrip().startswith("[")
    for place, item in _json_list(path) if is_list else _json_lines(path):
        if isinstance(item, Repeated):
            raise error(path, place, "every name once in an object", f"{item.name!r} twice")
        if not isinstance(item, dict):
            raise error(path, place, "an object with the columns", shown(item))
        try:
            "".join(value for value in item.values() if isinstance(value, str)).encode()
        except UnicodeEncodeError as invalid:  # an escape such as \\ud800, half of a character
            raise error(path, place, "Unicode text", str(invalid)) from invalid
        yield Record(path, place, item).require(columns)


def read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    with opened(path) as file:
        try:
            table = ParquetFile(file)
            names = table.schema_arrow.names
        except (ArrowException, OSError, ValueError) as invalid:
            raise error(path, "the file", "Parquet", str(invalid)) from invalid
        _require(path, "the file", columns, names)
        _check_once(path, "the file", names)
        try:
            rows = (row for batch in table.iter_batches() for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                yield Record(path, f"row {number}", row)
        except (ArrowException, OSError, ValueError, OverflowError) as invalid:
            raise error(path, "the file", "Parquet", str(invalid)) from invalid


def read_txt(path: Path, columns: Sequence[str] = ("text",)) -> Iterator[Record]:
    """Yield the lines of a file as rows with the column `text`, empty ones too."""
    _require(path, "the file", columns, ["text"])
    for number, line in _lines(path):
        yield Record(path, f"line {number}", {"text": line.rstrip("\r")})


Reader = Callable[[Path, Sequence[str]], Iterator[Record]]
TEXT_READERS: dict[str, Reader] = {".csv": read_csv, ".tsv": read_tsv, ".json": read_json, ".jsonl": read_json}
READERS: dict[str, Reader] = {
    **TEXT_READERS,
    ".parquet": read_parquet,
    **{f"{ending}.gz": reader for ending, reader in TEXT_READERS.items()},
}
"""Readers of tables by the ending of the file."""


def ending_of(path: Path) -> str | None:
    """Return the ending by which a file is read; None if there is no reader for it."""
    return next((ending for ending in READERS if path.name.endswith(ending)), None)


def opened(path: Path) -> BinaryIO:
    """Open a file to read bytes, decompressed if its name ends in `.gz`."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _require(path: Path, place: str, columns: Sequence[str], present: Any) -> None:
    for column in columns:
        if column not in present:
            raise error(
                path, place, f"a column {column!r}", f"the columns {', '.join(map(shown, list(present)[:20]))}"
            )


def _check_once(path: Path, place: str, names: Sequence[str]) -> None:
    name = repeated(names)
    if name:
        raise error(path, place, "every column once", f"{name!r} twice")


def repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs twice; columns without a name are ignored."""
    known: set[str] = set()
    for name in names:
        if name and name in known:
            return name
        known.add(name)
    return None


class Repeated(dict[str, Any]):
    """A JSON object in which a name occurs twice."""

    name: str


def json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object for `json.loads(object_pairs_hook=...)`, marked if a name occurs twice."""
    name = repeated([key for key, _ in pairs])
    if name is None:
        return dict(pairs)
    made = Repeated(pairs)
    made.name = name
    return made


def _lines(path: Path, end: str = "") -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n") + end
    except UnicodeDecodeError as invalid:
        raise error(path, f"line {number}", "UTF-8 text", str(invalid)) from invalid
    except (gzip.BadGzipFile, zlib.error, EOFError) as invalid:
        raise error(path, f"line {number + 1}", "text compressed with gzip", str(invalid)) from invalid


def _csv_fields(path: Path) -> Fields:
    reader = csv.reader((line for _, line in _lines(path, end="\n")), strict=True)
    while True:
        start = reader.line_num + 1  # a row may span lines
        try:
            fields = next(reader, None)
        except csv.Error as invalid:
            raise error(path, f"line {start}", "a row of comma-separated values", str(invalid)) from invalid
        if fields is None:
            return
        if fields:
            yield start, fields


def _records(
    path: Path,
    fields: Fields,
    columns: Sequence[str],
    header: Sequence[str] = (),
    broken: list[DataError] | None = None,
) -> Iterator[Record]:
    names = list(header) or next(fields, (1, []))[1]
    _require(path, "line 1", columns, names)
    _check_once(path, "line 1", names)
    for number, values in fields:
        if len(values) == len(names):
            yield Record(path, f"line {number}", dict(zip(names, values, strict=True)))
            continue
        wrong = error(path, f"line {number}", f"{len(names)} columns ({', '.join(names)})", f"{len(values)}")
        if broken is None:
            raise wrong
        broken.append(wrong)


def _json_list(path: Path) -> Iterator[tuple[str, Any]]:
    text = "\n".join(line for _, line in _lines(path))
    try:
        items = parse_json(text, object_pairs_hook=json_object)
    except json.JSONDecodeError as invalid:
        raise error(path, f"line {invalid.lineno}", "JSON", invalid.msg) from invalid
    except ValueError as invalid:
        raise error(path, "the file", "JSON", str(invalid)) from invalid
    for number, item in enumerate(items, 1):
        yield f"row {number}", item


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            item = parse_json(line, object_pairs_hook=json_object)
        except ValueError as invalid:
            raise error(path, f"line {number}", "a JSON object", f"{shown(line)} ({invalid})") from invalid
        yield f"line {number}", item
