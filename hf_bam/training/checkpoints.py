"""Checkpoints that are whole or not there: folders of tensors and JSON, with a manifest."""

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
    """A folder with tensors in named files and the other values in one."""

    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name.removeprefix("step-"))

    def file(self, name: str) -> Path:
        """The file of these tensors."""
        return self.folder / f"{name}.safetensors"

    def tensors(self, name: str) -> Tensors:
        try:
            return load_file(self.file(name))
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{self.file(name)} cannot be read: {error}.") from error

    def values(self) -> dict[str, Any]:
        return json.loads((self.folder / VALUES).read_text(encoding="utf-8"))

    def best(self) -> int | None:
        """The step of the best checkpoint when this one was made; None also for a torn one."""
        try:
            return (self.values()["best"] or {}).get("step")
        except (OSError, ValueError, KeyError):
            return None

    def is_whole(self) -> bool:
        """Whether every file is there as it was written."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            return bool(manifest) and all(_digest(self.folder / name) == digest for name, digest in manifest.items())
        except (OSError, ValueError):
            return False


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, `step-00000120` and the like, in one folder.

    A checkpoint is written to a hidden folder, forced to the disk and then renamed, so a process that is killed leaves
    the earlier ones as they were. Nothing is pickled.

    Attributes:
        save_total_limit: how many of the latest ones are kept. What these call their best is kept as well.
    """

    folder: Path
    save_total_limit: int = 1

    def save(self, step: int, tensors: Mapping[str, Tensors], values: Mapping[str, Any]) -> Checkpoint:
        """Writes one and removes those that are not needed any more.

        Args:
            tensors: by file.
            values: whatever JSON can hold; `values["best"]["step"]` is the step of the best checkpoint, if any.
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
            _to_disk(file)
        shutil.rmtree(made.folder, ignore_errors=True)  # a torn one of the same step
        temporary.rename(made.folder)
        _to_disk(self.folder)
        self.prune(step)
        return made

    def at(self, step: int) -> Checkpoint:
        return Checkpoint(self.folder / f"step-{step:08d}")

    def all(self) -> list[Checkpoint]:
        """From the oldest to the newest, whole or not."""
        return [Checkpoint(folder) for folder in sorted(self.folder.glob("step-*"))]

    def newest(self) -> Checkpoint | None:
        """The newest one that is whole."""
        return next((checkpoint for checkpoint in reversed(self.all()) if checkpoint.is_whole()), None)

    def prune(self, step: int) -> None:
        """Removes those that are not needed after this step; later ones are torn, and their steps are done again."""
        found = self.all()
        latest = [checkpoint for checkpoint in found if checkpoint.step <= step][-self.save_total_limit :]
        best = {checkpoint.best() for checkpoint in latest}
        for checkpoint in found:
            if checkpoint not in latest and checkpoint.step not in best:
                shutil.rmtree(checkpoint.folder)

    def clear(self) -> None:
        """Removes all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
