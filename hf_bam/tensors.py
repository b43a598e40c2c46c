"""Files of tensors with a header, in the format safetensors: nothing in them is executed when they are read.

A file depends on its content only: the same tensors and the same header give the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

Place = str | os.PathLike[str]


def save(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str] | None = None) -> Path:
    """Write a file; raise `OSError` if the disk is full or the place cannot be written."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(content, path, dict(header) if header else None)
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error
    if header:
        _sort_header(path)
    return path


def replace(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> Path:
    """Write a file in the place of an earlier one, as a whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        return save(unfinished, tensors, header).replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _sort_header(path: Path) -> None:
    """Sort the entries of the header, which safetensors writes in a random order."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        content = json.loads(file.read(size))
        content["__metadata__"] = dict(sorted(content["__metadata__"].items()))
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(text) <= size, "safetensors writes JSON without spaces"
        file.seek(8)
        file.write(text.ljust(size))


def read(path: Place) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the header and the tensors of a file; raise `ValueError` if it is damaged."""
    try:
        if not Path(path).is_file():
            raise OSError("it is not a file")
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read, it is damaged or incomplete: {error}") from error


def check_version(path: Place, header: Mapping[str, str], name: str, known: int) -> None:
    """Raise `ValueError` unless the header has a version of the format, and one that is known."""
    version = header.get(name, "")
    if not version.isascii() or not version.isdigit() or len(version) > 9:
        raise ValueError(f"{path} was not written by hf_bam: its header lacks {name}.")
    if int(version) > known:
        raise ValueError(f"{path} has format {version}, this hf_bam reads up to {known}: install a newer hf_bam.")


def check_finite(path: Place, tensors: Mapping[str, Tensor]) -> None:
    """Raise `ValueError` if a tensor has a number that is not finite."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.to(torch.float64).isfinite().all():
            raise ValueError(f"{path} is damaged: some numbers of {name[:80]!r} are not finite.")
