"""Checkpoints: folders of tensors and JSON with a manifest, complete or absent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

MANIFEST, VALUES = "manifest.json", "state.json"
Tensors = dict[str, Tensor]


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
        try:
            return load_file(self.file(name))
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{self.file(name)} cannot be read: {error}.") from error

    def values(self) -> dict[str, Any]:
        """Return the other values."""
        return json.loads((self.folder / VALUES).read_text(encoding="utf-8"))

    def best(self) -> int | None:
        """Return the step of the best checkpoint at the time of this one; None also if this one is incomplete."""
        try:
            return (self.values()["best"] or {}).get("step")
        except (OSError, ValueError, KeyError):
            return None

    def is_complete(self) -> bool:
        """Return whether every file exists and is unchanged."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            return bool(manifest) and all(_digest(self.folder / name) == digest for name, digest in manifest.items())
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
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, content in tensors.items():
            save_file(content, temporary / f"{name}.safetensors")
        _write_json(temporary / VALUES, values)
        _write_json(temporary / MANIFEST, {file.name: _digest(file) for file in sorted(temporary.iterdir())})
        for file in (*temporary.iterdir(), temporary):
            _flush(file)
        shutil.rmtree(made.folder, ignore_errors=True)  # an incomplete one of the same step
        temporary.rename(made.folder)
        _flush(self.folder)
        self.prune(step)
        return made

    def at(self, step: int) -> Checkpoint:
        """Return the checkpoint of a step, which need not exist."""
        return Checkpoint(self.folder / f"step-{step:08d}")

    def all(self) -> list[Checkpoint]:
        """Return all checkpoints, complete or not, from the oldest to the latest."""
        return [Checkpoint(folder) for folder in sorted(self.folder.glob("step-*"))]

    def last(self) -> Checkpoint | None:
        """Return the last complete checkpoint."""
        return next((checkpoint for checkpoint in reversed(self.all()) if checkpoint.is_complete()), None)

    def prune(self, step: int) -> None:
        """Remove checkpoints that are not needed after this step; later ones are incomplete and will be replaced."""
        found = self.all()
        latest = [checkpoint for checkpoint in found if checkpoint.step <= step][-self.save_total_limit :]
        best = {checkpoint.best() for checkpoint in latest}
        for checkpoint in found:
            if checkpoint not in latest and checkpoint.step not in best:
                shutil.rmtree(checkpoint.folder)

    def clear(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self.folder, ignore_errors=True)


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
