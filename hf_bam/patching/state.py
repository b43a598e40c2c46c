"""Record of a patched model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from ..attention.layer import BamLayer
from ..attention.runtime import Runtime
from ..config import BamConfig
from ..graph.convolution import has_attention
from .backward import Tally

ATTRIBUTE = "_bam"


@dataclass
class Patch:
    """Changes that patching made to a model, and what is needed to undo them.

    Attributes:
        root: the model that was patched. The models inside it share the record.
        implementations: every model config with the attention implementation that it had.
        attributes: attributes of the models inside the root that were overwritten, with their models.
        layers: the Bayesian layers of the model.
        checkpointed: modules that transformers can run again in the backward pass, by gradient checkpointing.
        tally: forwards since the last optimizer step, and those whose KL was trained.
        checked: whether the gradient of the prior of a compiled model was checked.
        expansions: hooks of the layers that can repeat the batch, see `hf_bam.patching.expansion`.
        alternatives: hooks for the alternatives of a latent alignment, see `hf_bam.patching.alternatives`.
        latent: number of places of a latent alignment; 0 for other families.
        memories: hooks of a latent variable of the encoder's states, see `hf_bam.patching.memory`.
        code_prior: autoregressive prior of the codes, a transformers model beside the patched one; None: not fitted.
        has_alternatives: whether alternatives of a latent alignment can follow behind its attention.
        classifier: whether it is a model that classifies by its first token, with a latent alignment of that.
        feeds_back: whether the decoder feeds the output of this attention back.
        skipped: names of attention modules inside the root that cannot be patched and stay as they are.
    """

    root: nn.Module
    config: BamConfig
    runtime: Runtime = field(default_factory=Runtime)
    implementations: list[tuple[Any, Any]] = field(default_factory=list)
    attributes: list[tuple[nn.Module, dict[str, Any]]] = field(default_factory=list)
    layers: list[BamLayer] = field(default_factory=list)
    checkpointed: list[nn.Module] = field(default_factory=list)
    handles: list[RemovableHandle] = field(default_factory=list)
    expansions: list[RemovableHandle] = field(default_factory=list)
    alternatives: list[RemovableHandle] = field(default_factory=list)
    latent: int = 0
    memories: list[RemovableHandle] = field(default_factory=list)
    code_prior: Any = None
    has_alternatives: bool = False
    classifier: bool = False
    feeds_back: bool = False
    skipped: tuple[str, ...] = ()
    tally: Tally = field(default_factory=Tally)
    checked: bool = False


def base_model(model: nn.Module) -> PreTrainedModel:
    """Return the transformers model itself, also of a PEFT model or a compiled one."""
    found = _transformers_model(getattr(model, "_orig_mod", model))
    if found is None:
        raise TypeError(f"This needs a transformers model or a PEFT model around one, not {type(model).__name__}.")
    return found


def root_of(model: nn.Module) -> nn.Module:
    """Return the model that is patched: a transformers model, also of a PEFT model, or one with graph attention."""
    found = _transformers_model(model)
    if found is not None:
        return found
    wrapped = isinstance(model, (DataParallel, DistributedDataParallel)) or hasattr(model, "_orig_mod")
    if wrapped or not any(map(has_attention, model.modules())):
        raise TypeError(
            "hf_bam needs a transformers model or a PEFT model around one, or a PyTorch Geometric model with GATConv "
            f"or GATv2Conv layers, not {type(model).__name__}. Patch the model before it is wrapped "
            "(DistributedDataParallel, torch.compile, a module of your own)."
        )
    return model


def _transformers_model(model: nn.Module) -> PreTrainedModel | None:
    inner = model if isinstance(model, PreTrainedModel) else getattr(model, "get_base_model", lambda: None)()
    return inner if isinstance(inner, PreTrainedModel) else None


def models_of(root: nn.Module) -> list[Any]:
    """Return the models around whose forwards hooks are put: all of transformers in a model of transformers."""
    if not isinstance(root, PreTrainedModel):
        return [root]
    return [module for module in root.modules() if isinstance(module, PreTrainedModel)]


def find_patches(model: nn.Module) -> list[Patch]:
    """Return the records of the patched models inside a module, which may be a wrapper (DDP, PEFT, torch.compile)."""
    records = (vars(module).get(ATTRIBUTE) for module in model.modules())
    return list({id(record): record for record in records if record is not None}.values())


def patch_of(model: nn.Module) -> Patch:
    """Return the record of a patched model, or raise an error."""
    patches = find_patches(model)
    if len(patches) == 1:
        return patches[0]
    if patches:
        raise ValueError(f"This {type(model).__name__} holds {len(patches)} patched models; name one of them.")
    raise ValueError(f"This {type(model).__name__} is not patched; call hf_bam.patch(model) first.")


def skipped_by(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the attention modules that patching left out of a model."""
    return next((record.skipped for record in find_patches(model) if record.root is model), ())


def bam_modules(model: nn.Module) -> Iterator[tuple[str, BamLayer]]:
    """Return the Bayesian layers of a model with their names."""
    return ((path, module) for path, module in model.named_modules() if isinstance(module, BamLayer))


def keep_networks(module: nn.Module, layer: BamLayer) -> None:
    """Give a new layer the networks that its module has already, where they have the same form."""
    old = dict(getattr(module, "bam", nn.Module()).named_children())
    for name, network in layer.named_children():
        if name in old and _form(old[name]) == _form(network):
            layer.add_module(name, old[name])


def _form(network: nn.Module) -> tuple[type, list[torch.Size]]:
    return type(network), [tensor.shape for tensor in network.state_dict().values()]
