"""The record that a patched model carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from ..config import BamConfig
from ..runtime import Runtime

ATTRIBUTE = "_bam"


@dataclass
class Patch:
    """What was done to a model, and what it takes to undo it.

    Attributes:
        root: the model that was patched. The models inside it share the record.
        implementations: every model config with the attention implementation that it had.
    """

    root: PreTrainedModel
    config: BamConfig
    runtime: Runtime = field(default_factory=Runtime)
    implementations: list[tuple[Any, Any]] = field(default_factory=list)
    handles: list[RemovableHandle] = field(default_factory=list)


def base_model(model: nn.Module) -> PreTrainedModel:
    """The transformers model itself, also out of a PEFT model."""
    if isinstance(model, PreTrainedModel):
        return model
    inner = getattr(model, "get_base_model", lambda: None)()
    if isinstance(inner, PreTrainedModel):
        return inner
    raise TypeError(
        f"hf_bam needs a transformers model or a PEFT model around one, not {type(model).__name__}. Patch the "
        "transformers model before it is wrapped (DistributedDataParallel, torch.compile, a module of your own)."
    )


def find_patch(model: nn.Module) -> Patch | None:
    return vars(base_model(model)).get(ATTRIBUTE)


def patch_of(model: nn.Module) -> Patch:
    patch = find_patch(model)
    if patch is None:
        raise ValueError(f"This {type(model).__name__} is not patched; call hf_bam.patch(model) first.")
    return patch
