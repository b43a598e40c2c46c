"""Hostile files: each raises `ValueError` in a short time, takes little memory and runs no code."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import hf_bam
from hf_bam.tensors import read

from ..models import bert

DEEP = '{"k":' * 50_000 + "1" + "}" * 50_000
SENTINEL = "executed"
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}


class Bomb:
    """Object whose unpickling creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@dataclass(frozen=True)
class Case:
    """Way to make a saved Bayesian model hostile; `write` gets its folder."""

    name: str
    write: Callable[[Path], Any]


def header(folder: Path, changes: Mapping[str, str], **settings: Any) -> None:
    """Write `bam.safetensors` with other entries of the header, and with other settings among them."""
    path = folder / "bam.safetensors"
    found, tensors = read(path)
    config = json.dumps({**json.loads(found["bam_config"]), **settings})
    save_file(tensors, path, {**found, "bam_config": config, **changes})


def tensors(folder: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
    """Write `bam.safetensors` with other tensors."""
    path = folder / "bam.safetensors"
    found, own = read(path)
    save_file({name: change(name, tensor) for name, tensor in own.items()}, path, found)


def replaced(file: str, content: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / file).write_bytes(content)


def cut(share: float) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        content = (folder / "bam.safetensors").read_bytes()
        (folder / "bam.safetensors").write_bytes(content[: int(share * len(content))])

    return write


def linked(folder: Path) -> None:
    (folder / "bam.safetensors").unlink()
    (folder / "bam.safetensors").symlink_to("/dev/zero")


def not_finite(value: float) -> Callable[[Path], Any]:
    return lambda folder: tensors(folder, lambda _, t: torch.full_like(t, value) if t.is_floating_point() else t)


ARCHITECTURES = (
    "pipeline",
    "",
    "__name__",
    "os",
    "logging",
    "AutoModel",
    "BertConfig",
    "Trainer",
    "torch",
    "x" * 10**5,
)
SETTINGS: tuple[dict[str, Any], ...] = (
    *({"k": value} for value in (10**400, 1e308, 0, -1, "1", None, [1], {"a": 1}, True, float("nan"), 5e-324)),
    *({"d_mid": value} for value in (10**9, 10**400, 0, -5, "5", 1.5)),
    *({"family": value} for value in (["weibull"], {"a": 1}, None, 5, "os.system", "x" * 10**5)),
    *({"layers": value} for value in ("x", [], [None], {"a": 1}, 10**400, -1, [[0]])),
    *({"prior": value} for value in (None, 5, ["contextual"])),
    *({"__class__": "x"}, {"settings": {}}, {"x" * 10**4: 1}),
)
RAW: tuple[bytes, ...] = (
    *(b"", b"\x00" * 100, b"\xff" * 100, b"{}", b"PK\x03\x04", b"\x80\x04."),
    *(size.to_bytes(8, "little") + b"{}" for size in (0, 2, 3, 2**31, 2**63, 2**64 - 1)),
    (10**6).to_bytes(8, "little") + DEEP.encode(),
    len(DEEP).to_bytes(8, "little") + DEEP.encode(),
)


def cases() -> Iterator[Case]:
    """Yield the cases of `bam.safetensors`."""
    for name in ARCHITECTURES:
        yield Case(f"architecture {name[:20]}", lambda folder, name=name: header(folder, {"architecture": name}))
    for settings in SETTINGS:
        yield Case(f"settings {settings}"[:60], lambda folder, settings=settings: header(folder, {}, **settings))
    for text in (DEEP, "[" * 10**5, "9" * 5000, "null", "[]", '"x"', "{", "NaN"):
        yield Case(f"config {text[:20]}", lambda folder, text=text: header(folder, {"bam_config": text}))
    for version in ("", "x", "²", "-1", "1.5", "9" * 5000, "2"):
        yield Case(f"version {version[:20]}", lambda folder, version=version: header(folder, {"bam_format": version}))
    for content in RAW:
        yield Case(f"raw {content[:20]!r}", replaced("bam.safetensors", content))
    for share in (0.01, 0.3, 0.9, 0.999):
        yield Case(f"cut at {share}", cut(share))
    for value in (float("nan"), float("inf"), -float("inf")):
        yield Case(f"tensors of {value}", not_finite(value))
    for dtype in (torch.int8, torch.bool, torch.int64, torch.complex64):
        yield Case(f"tensors of {dtype}", lambda folder, dtype=dtype: tensors(folder, lambda _, t: t.to(dtype)))
    yield Case("shapes", lambda folder: tensors(folder, lambda _, t: torch.zeros(3, 3)))
    yield Case("a device", linked)
    yield Case(
        "a folder", lambda folder: ((folder / "bam.safetensors").unlink(), (folder / "bam.safetensors").mkdir())
    )
    yield Case("a pickle", lambda folder: replaced("bam.safetensors", pickle.dumps(Bomb(folder / SENTINEL)))(folder))


def saved(folder: Path) -> Path:
    """Save a small Bayesian model."""
    torch.manual_seed(0)
    model = hf_bam.patch(bert(**SIZES))
    model.save_pretrained(folder)
    return folder


def check(folder: Path, case: Case) -> None:
    """Load a model that was made hostile; anything but `ValueError` is a failure."""
    case.write(folder)
    loads: list[Callable[[], Any]] = [lambda: hf_bam.from_pretrained(folder)]
    if not case.name.startswith("architecture"):  # `load` does not need it
        loads.append(lambda: hf_bam.load(copy.deepcopy(BASE), folder))
    for load in loads:
        try:
            load()
        except (ValueError, FileNotFoundError):
            continue
        raise AssertionError(f"{case.name} was accepted")
    assert not (folder / SENTINEL).exists(), f"{case.name} ran code"


BASE = bert(**SIZES)


STATES: tuple[dict[str, Any], ...] = (
    *({"step": value} for value in (None, "4", -1, 10**400, 1.5, [4], 5)),
    *({"best": value} for value in (5, [], "x", {}, {"step": "4"}, {"step": 4, "score": "x"}, {"step": 10**30})),
    *({"waited": None}, {"stopped": "yes"}, {"about": 5}, {"about": []}, {"about": None}),
    *({"random": value} for value in (None, [], {}, 5, [{}], [{"python": 1}], [None], ["x"])),
    *({"scaler": value} for value in (5, "x", {"scale": 1})),
    *({"idle": value} for value in (5, "x", {"a": 1})),
)
"""Entries of `state.json` of a checkpoint whose digests are those of its files."""
MANIFESTS: tuple[Any, ...] = (
    *({name: "0" * 64} for name in ("/dev/zero", "../state.json", "state.json", "nothing", "", ".", "x" * 10**4)),
    *({}, [], None, 5, "x", {"state.json": 5}, {"state.json": None}, {"state.json": ["a"]}),
)
