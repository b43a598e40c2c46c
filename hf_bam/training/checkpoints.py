"""Checkpoints: folders of tensors and JSON with a manifest, complete or absent."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from ..fields import parse_json
from ..tensors import read, save
from .files import remove

MANIFEST, VALUES = "manifest.json", "state.json"
NAME = re.compile(r"step-([0-9]{8,18})")
UNFINISHED = re.compile(rf"\.{NAME.pattern}")
Tensors = dict[str, Tensor]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A folder with tensors in named files and all other values in one file."""

    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name.removeprefix("step-"))

    def file(self, name: str) -> Path:
        """Return the path of a file of tensors."""
        return self.folder / f"{name}.safetensors"

    def tensors(self, name: str) -> Tensors:
        """Return the tensors of a file."""
        return read(self.file(name))[1]

    def values(self) -> dict[str, Any]:
        """Return the other values."""
        return _mapping(self.folder / VALUES)

    def best(self) -> int | None:
        """Return the step of the best checkpoint at the time of this one; None also if this one is incomplete."""
        try:
            best = self.values().get("best")
        except (OSError, ValueError):
            return None
        step = best.get("step") if isinstance(best, Mapping) else None
        return step if isinstance(step, int) else None

    def is_complete(self) -> bool:
        """Return whether every file exists and is unchanged."""
        try:
            manifest = _mapping(self.folder / MANIFEST)
            files = {name: self.folder / name for name in manifest if Path(name).name == name}
            return VALUES in manifest and all(
                name in files and files[name].is_file() and _digest(files[name]) == digest
                for name, digest in manifest.items()
            )
        except (OSError, ValueError):
            return False


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run in one folder, with names such as `step-00000120`.

    A checkpoint is written to a hidden folder, flushed to the disk and then renamed, so a process that is killed does
    not damage the earlier ones. Nothing is pickled.

    Attributes:
        save_total_limit: number of the latest checkpoints to keep, in addition to those that these call their best.
    """

    folder: Path
    save_total_limit: int = 1

    def save(self, step: int, tensors: Mapping[str, Tensors], values: Mapping[str, Any]) -> Checkpoint:
        """Write a checkpoint and remove those that are no longer needed.

        Args:
            tensors: by file.
            values: anything that JSON can hold; `values["best"]["step"]` is the step of the best checkpoint, if any.
        """
        made = self.at(step)
        temporary = self.folder / f".{made.folder.name}"
        self.remove_unfinished()
        try:
            _write(temporary, tensors, values)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        remove(made.folder)  # an incomplete one of the same step
        temporary.rename(made.folder)
        _flush(self.folder)
        self.prune(step)
        return made

    def at(self, step: int) -> Checkpoint:
        """Return the checkpoint of a step, which need not exist."""
        return Checkpoint(self.folder / f"step-{step:08d}")

    def all(self) -> list[Checkpoint]:
        """Return all checkpoints, complete or not, from the oldest to the latest; other files are passed over."""
        entries = list(self.folder.iterdir()) if self.folder.is_dir() else []
        return sorted((Checkpoint(entry) for entry in entries if _is_checkpoint(entry)), key=lambda own: own.step)

    def complete(self) -> Iterator[Checkpoint]:
        """Yield the complete checkpoints, the latest first."""
        return (checkpoint for checkpoint in reversed(self.all()) if checkpoint.is_complete())

    def last(self) -> Checkpoint | None:
        """Return the latest complete checkpoint, if possible one whose best checkpoint is complete, too."""
        whole = {checkpoint.step: checkpoint for checkpoint in self.complete()}
        usable = (own for own in whole.values() if own.best() is None or own.best() in whole)
        return next(usable, next(iter(whole.values()), None))

    def warn(self) -> None:
        """Log what is passed over: damaged checkpoints, and files that are none."""
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if not _is_checkpoint(entry):
                if not UNFINISHED.fullmatch(entry.name):
                    logger.warning("%s is not a checkpoint and is passed over.", entry)
            elif not Checkpoint(entry).is_complete():
                logger.warning("%s is damaged or incomplete and is passed over.", entry)

    def remove_unfinished(self) -> None:
        """Remove checkpoints that a killed process was writing."""
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if UNFINISHED.fullmatch(entry.name):
                remove(entry)

    def prune(self, step: int) -> None:
        """Remove checkpoints that are not needed after this step; later ones are incomplete and will be replaced.

        The latest complete ones are kept, and with none nothing is removed.
        """
        found = self.all()
        latest = list(islice((own for own in self.complete() if own.step <= step), self.save_total_limit))
        best = {checkpoint.best() for checkpoint in latest}
        for checkpoint in found if latest else ():
            if checkpoint not in latest and checkpoint.step not in best:
                remove(checkpoint.folder)

    def clear(self) -> None:
        """Remove all checkpoints, as far as possible; the folder may be a link, which stays."""
        for entry in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            with suppress(OSError):
                remove(entry)
        with suppress(OSError):
            self.folder.rmdir()


def _write(folder: Path, tensors: Mapping[str, Tensors], values: Mapping[str, Any]) -> None:
    """Write the files of a checkpoint and flush them to the disk."""
    folder.mkdir(parents=True)
    for name, content in tensors.items():
        save(folder / f"{name}.safetensors", content)
    _write_json(folder / VALUES, values)
    _write_json(folder / MANIFEST, {file.name: _digest(file) for file in sorted(folder.iterdir())})
    for file in (*folder.iterdir(), folder):
        _flush(file)


def _is_checkpoint(entry: Path) -> bool:
    return NAME.fullmatch(entry.name) is not None and entry.is_dir()


def _mapping(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or raise `ValueError`."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    content = parse_json(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object.")
    return content


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
