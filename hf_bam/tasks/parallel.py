"""Parallel text in the format of the Moses toolkit: two files whose lines are translations of each other."""

from __future__ import annotations

import gzip
import logging
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from datasets import Dataset

from .base import Data, DataError

DEVELOPMENT = ("val", "valid", "validation", "dev")
logger = logging.getLogger(__name__)


def read_folder(folder: Path, source: str, target: str) -> Data:
    """Return the sets of a folder, with columns `source` and `target`.

    From English to German: `train.en` and `train.de`; likewise `val`, `valid`, `validation` or `dev`, and every name
    that begins with `test`. Each may be compressed (`train.en.gz`). A test set without a target file is unlabelled.
    """
    if not folder.is_dir():
        raise DataError(f"data_dir={str(folder)!r} is not a folder; expected one with train.{source}, train.{target}.")
    names = _names(folder, source) | _names(folder, target)
    development = [name for name in DEVELOPMENT if name in names]
    if not development:
        choices = ", ".join(f"{name}.{source}" for name in DEVELOPMENT)
        raise DataError(f"{folder} has no development set; expected one of {choices}, and its translation.")
    tests = sorted(name for name in names if name.startswith("test"))
    unlabelled = [name for name in tests if name not in _names(folder, target)]
    labelled = [*development, *(name for name in tests if name not in unlabelled)]
    return Data(
        read_pairs(folder, "train", source, target, training=True),
        {name: read_pairs(folder, name, source, target) for name in labelled},
        {name: Dataset.from_dict({"source": read_all(find(folder, name, source))}) for name in unlabelled},
    )


def read_texts(folder: Path, ending: str) -> Data:
    """Return the sets of a folder with one file each, whose texts are both `source` and `target`."""
    names = _names(folder, ending) if folder.is_dir() else set()
    development = [name for name in DEVELOPMENT if name in names]
    if "train" not in names or not development:
        choices = " or ".join(f"{name}.{ending}" for name in DEVELOPMENT)
        raise DataError(f"{folder}: expected train.{ending} and one of {choices}.")
    sets = {name: [text for text in read_lines(find(folder, name, ending)) if text] for name in names}
    rows = {name: Dataset.from_dict({"source": own, "target": own}) for name, own in sets.items()}
    tests = sorted(name for name in names if name.startswith("test"))
    return Data(rows["train"], {name: rows[name] for name in (*development, *tests)})


def write_folder(folder: Path, data: Data, source: str, target: str) -> list[Path]:
    """Write files that `read_folder` reads."""
    sides = {"source": source, "target": target}
    return [
        write_lines(folder / f"{name}.{language}", rows[side])
        for name, rows in data.sets.items()
        for side, language in sides.items()
        if side in rows.column_names
    ]


def read_pairs(folder: Path, name: str, source: str, target: str, *, training: bool = False) -> Dataset:
    """Return the pairs of one set. Pairs with an empty side are skipped for training; otherwise they are an error."""
    files = [find(folder, name, language) for language in (source, target)]
    sides = [(read_lines if training else read_all)(file) for file in files]
    if len(sides[0]) != len(sides[1]):
        long, short = (0, 1) if len(sides[0]) > len(sides[1]) else (1, 0)
        raise DataError(
            f"{files[long]}, line {len(sides[short]) + 1}: no translation, as {files[short]} has only "
            f"{len(sides[short])} lines of {len(sides[long])}; expected as many in both."
        )
    pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
    if not pairs:
        raise DataError(f"{files[0]} and {files[1]} have no line with text in both.")
    if len(pairs) < len(sides[0]):
        logger.warning(
            "%s: %d of %d lines left out, empty here or in %s",
            files[0],
            len(sides[0]) - len(pairs),
            len(sides[0]),
            files[1].name,
        )
    return Dataset.from_dict({"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]})


def read_all(path: Path) -> list[str]:
    """Return the lines of a file, none of which may be empty."""
    lines = read_lines(path)
    if "" in lines:
        raise DataError(f"{path}, line {lines.index('') + 1}: empty; expected a sentence on every line.")
    return lines


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, stripped; a line ends at a newline and at no other separator."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be decompressed ({error}); expected a gzip file.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: {error.reason}; expected text in UTF-8.") from None
    if not text.strip():
        raise DataError(f"{path} is empty; expected one sentence a line.")
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write one sentence a line; line breaks within a sentence become spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(re.sub(r"[\r\n]+", " ", line).strip() + "\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def find(folder: Path, name: str, language: str) -> Path:
    """Return the file of a set in a language, compressed or not."""
    for path in (folder / f"{name}.{language}", folder / f"{name}.{language}.gz"):
        if path.is_file():
            return path
    there = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    raise DataError(f"{folder / name}.{language} is missing (also with .gz); the folder has {there}.")


def _names(folder: Path, language: str) -> set[str]:
    """Return the names of the sets that have a file in a language."""
    files = {path.name.removesuffix(".gz") for path in folder.iterdir() if path.is_file()}
    return {name.removesuffix(f".{language}") for name in files if name.endswith(f".{language}")}
