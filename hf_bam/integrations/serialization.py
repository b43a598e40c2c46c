"""File `bam.safetensors`: the settings, prior networks and annealing step that make a plain model Bayesian."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.utils import CONFIG_NAME
from transformers.utils.hub import cached_file

from .. import tensors as files
from ..config import BamConfig
from ..fields import parse_json
from ..patching import get_config, patch_without
from ..patching.state import bam_modules, patch_of, root_of
from ..patching.steps import BUFFER, step_of
from . import code_prior

FILE = "bam.safetensors"
FORMAT = 1
"""Version of the file; increased when older versions of hf_bam cannot read a new file."""

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class SavedBam:
    """Content of `bam.safetensors`, which [`apply`][hf_bam.integrations.serialization.apply] puts on a plain model.

    Attributes:
        config: the settings of the patched model.
        architecture: class name of the model that was saved.
        tensors: the prior networks and the annealing step, by their names in the state dict.
        skipped: names of the attention modules that were left out (`strict=False`).
        source: path of the file, for error messages.
    """

    config: BamConfig
    architecture: str
    tensors: dict[str, Tensor]
    source: str | os.PathLike[str]
    skipped: tuple[str, ...] = ()


def save(model: nn.Module, directory: str | os.PathLike[str]) -> Path:
    """Write `bam.safetensors`, the settings and the prior network alone, which `load` applies to a base model."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    code_prior.save(model, directory)
    return write(model, state_tensors(model), directory)


def write(model: nn.Module, tensors: Mapping[str, Tensor], directory: Path) -> Path:
    """Write the file atomically and return its path."""
    metadata = {
        "format": "pt",
        "bam_format": str(FORMAT),
        "bam_config": json.dumps(get_config(model).to_dict()),
        "architecture": type(root_of(model)).__name__.removeprefix("FSDP"),
        "skipped": json.dumps(patch_of(model).skipped),
    }
    return files.replace(directory / FILE, tensors, metadata)


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of `targets`, unsharded on every process."""
    # FSDP shards its parameters; all processes take part in gathering them.
    return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in targets(model).items()}


def targets(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that patching added, by their names in the model without PEFT's wrappers."""
    found = {BUFFER: step_of(patch_of(model).root)}
    for path, layer in bam_modules(root_of(model)):
        for child, network in layer.named_children():
            for name, tensor in _trained(network).state_dict(keep_vars=True).items():
                found[f"{path}.{child}.{name}"] = tensor
    return found


def _trained(module: nn.Module) -> nn.Module:
    """Return the copy that PEFT trains of a module named in `modules_to_save`, or the module itself."""
    copies = getattr(module, "modules_to_save", None)
    adapters = getattr(module, "active_adapters", None)
    return copies[adapters[0]] if isinstance(copies, nn.ModuleDict) and adapters else module


def read(path: str | os.PathLike[str]) -> SavedBam:
    """Read the file; raise `ValueError` if it is damaged, of another program or of a newer version."""
    metadata, tensors = files.read(path)
    if "bam_config" not in metadata:
        raise ValueError(f"{path} was not written by hf_bam: its header lacks bam_config.")
    files.check_version(path, metadata, "bam_format", FORMAT)
    try:
        config = BamConfig.from_saved(parse_json(metadata["bam_config"]))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} has settings that this hf_bam does not know: {error}") from error
    files.check_finite(path, tensors)
    skipped = parse_json(metadata.get("skipped", "[]"))
    if not isinstance(skipped, list) or not all(isinstance(name, str) for name in skipped):
        raise ValueError(f"{path} has a list of skipped modules that is not one of names.")
    return SavedBam(config, metadata.get("architecture", ""), tensors, path, tuple(skipped))


def load(model: Model, name_or_path: str | os.PathLike[str], **hub: Any) -> Model:
    """Apply a saved `bam.safetensors` to a base model, in place: patch it with the settings and load the prior.

    Args:
        model: a transformers model, a PEFT model around one, or a graph model, of the shape that was saved.
        name_or_path: a folder or a repository of the Hub.
        hub: `revision`, `token`, `cache_dir`, ... as for `from_pretrained`.
    """
    apply(model, read(find(name_or_path, **hub)))
    code_prior.load(model, name_or_path, **hub)
    return model


def apply(model: Model, saved: SavedBam) -> Model:
    """Patch a model with saved settings, copy the saved tensors into it and return it.

    Args:
        model: a transformers model, a PEFT model around one, or a graph model, of the shape that was saved.
        saved: content of a file, see `read`.
    """
    root = root_of(model)
    prefix = _prefix(root)
    # Those of a model with a head are inside its base model too, and conversely.
    skipped = {name for own in saved.skipped for name in (own, own.removeprefix(prefix), prefix + own)}
    present = tuple(name for name, _ in root.named_modules() if name in skipped)
    patch_without(root, saved.config, present)
    copy_tensors(model, saved)
    return model


def copy_tensors(model: nn.Module, saved: SavedBam) -> None:
    """Copy saved tensors into a patched model; raise `ValueError` unless all names, shapes and types match.

    Floating-point numbers are cast to the model's precision. Tensors of a model with a head match its base model, and
    conversely.
    """
    own = targets(model)
    tensors = _with_prefix_of(own, saved.tensors, _prefix(root_of(model)))
    wrong = sorted({*own} ^ {*tensors} | {name for name in {*own} & {*tensors} if not _fits(tensors[name], own[name])})
    if wrong:
        raise ValueError(
            f"{saved.source} does not fit this {type(root_of(model)).__name__}: {len(wrong)} tensors are "
            f"missing, left over or of another shape or type, {wrong[0]} the first of them. It was saved from a model "
            "of another shape or with other settings."
        )
    with torch.no_grad():
        for name, target in own.items():
            distribute(tensors[name], target)


def _prefix(root: nn.Module) -> str:
    """Return the beginning of the names of a base model in a model with a head."""
    return f"{getattr(root, 'base_model_prefix', '')}."


def _with_prefix_of(own: Mapping[str, Tensor], tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors under the names of `own`, which may be those of a model with a head or of its base model."""
    if own.keys() == tensors.keys():
        return tensors
    shorter = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    longer = {name if name == BUFFER else prefix + name: tensor for name, tensor in tensors.items()}
    return next((renamed for renamed in (shorter, longer) if renamed.keys() == own.keys()), tensors)


def _fits(value: Tensor, target: Tensor) -> bool:
    alike = value.dtype == target.dtype or (value.is_floating_point() and target.is_floating_point())
    return alike and value.shape == target.shape


def distribute(value: Tensor, target: Tensor) -> None:
    """Copy an unsharded tensor into one that may be sharded."""
    if isinstance(target, DTensor):
        value = distribute_tensor(value.to(target.device), target.device_mesh, target.placements)
    target.copy_(value)


def find(name_or_path: str | os.PathLike[str], **hub: Any) -> str:
    """Return the path of the file in a folder or a repository of the Hub; raise `FileNotFoundError` without one."""
    is_folder = os.path.isdir(name_or_path)
    if not is_folder and not _may_be_on_hub(os.fspath(name_or_path)):
        raise FileNotFoundError(f"There is no folder {name_or_path}, and no model on the Hub can have that name.")
    path = look_for(name_or_path, **hub)
    if path is None and not is_folder and look_for(name_or_path, CONFIG_NAME, **hub) is None:
        raise FileNotFoundError(
            f"{name_or_path} is not a folder, and the Hub cannot be reached or has no such model. A model that was "
            "loaded before is in its cache."
        )
    if path is None:
        raise FileNotFoundError(
            f"{name_or_path} has no {FILE}, so it is not a Bayesian model. Load it with transformers and call "
            "hf_bam.patch(model) to make it one."
        )
    return path


def _may_be_on_hub(name: str) -> bool:
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def look_for(name_or_path: str | os.PathLike[str], file: str = FILE, **hub: Any) -> str | None:
    """Return the path of a file in a folder or a repository of the Hub, or None if it has none."""
    return cached_file(name_or_path, file, _raise_exceptions_for_missing_entries=False, **hub)
