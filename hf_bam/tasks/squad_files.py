"""Files in the format of SQuAD."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value

from ..fields import parse_json, shown
from .base import DataError
from .readers import Repeated, json_object

ROW = Features(
    {name: Value("string") for name in ("id", "question", "context")}
    | {"answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))}}
)
"""Columns of the rows."""


def read(path: Path, version: str, *, training: bool = False) -> Dataset:
    """Return the questions of a file in the official layout.

    With `training`, an answer has to be the text at its offset.
    """
    rows = list(_rows(_parsed(path), str(path)))
    if not rows:
        raise DataError(f"{path} has no questions.")
    known: set[str] = set()
    for row in rows:
        where = f"{path}, question {row['id']}"
        if row["id"] in known:
            raise DataError(f"{where}: the id occurs twice; expected one question for each id.")
        known.add(row["id"])
        if version == "1.1" and not row["answers"]["text"]:
            raise DataError(f"{where}: expected an answer, as every question of SQuAD 1.1 has; use version 2.0.")
        for text, start in zip(*row["answers"].values(), strict=True):
            if not 0 <= start <= len(row["context"]):
                raise DataError(f"{where}: expected an answer_start in the context; found {shown(start)}.")
            found = row["context"][start : start + len(text)]
            if training and found != text:
                raise DataError(
                    f"{where}: expected the answer {shown(text)} at character {start}; found {shown(found)}."
                )
    return Dataset.from_list(rows, features=ROW)


def _parsed(path: Path) -> Any:
    try:
        return parse_json(path.read_bytes(), object_pairs_hook=json_object)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; train_file and dev_file say how the files are named.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8; byte {error.start} is not.") from error
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON: {error}.") from error


def _rows(document: Any, path: str) -> Iterator[dict[str, Any]]:
    for a, article in enumerate(_field(document, "data", list, path)):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            where = f"{path}: data[{a}].paragraphs[{p}]"
            context = _field(paragraph, "context", str, where)
            for q, question in enumerate(_field(paragraph, "qas", list, where)):
                yield _row(question, context, f"{where}.qas[{q}]")


def _row(question: Any, context: str, where: str) -> dict[str, Any]:
    own = _field(question, "answers", list, where)
    if own and question.get("is_impossible"):
        raise DataError(f"{where}: is_impossible is true, and there are {len(own)} answers; expected none.")
    paths = [f"{where}.answers[{index}]" for index in range(len(own))]
    return {
        "id": _field(question, "id", str, where),
        "question": _field(question, "question", str, where),
        "context": context,
        "answers": {
            "text": [_field(one, "text", str, path) for one, path in zip(own, paths, strict=True)],
            "answer_start": [_field(one, "answer_start", int, path) for one, path in zip(own, paths, strict=True)],
        },
    }


def _field(entry: Any, name: str, kind: type, where: str) -> Any:
    """Return a field of the right kind, or raise `DataError`."""
    if isinstance(entry, Repeated):
        raise DataError(f"{where}: expected every field once; found {entry.name!r} twice.")
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected an object with a field {name!r}; found {type(entry).__name__}.")
    if not isinstance(entry.get(name), kind) or isinstance(entry[name], bool):
        found = shown(entry[name]) if name in entry else f"the fields {', '.join(entry) or 'none'}"
        raise DataError(f"{where}: expected a field {name!r} ({kind.__name__}); found {found[:200]}.")
    return entry[name]
