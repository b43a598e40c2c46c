"""Patching: Bayesian attention is put into a model and taken out again; hooks around its forward.

May import `attention`, `graph`, `config`, `objective` and transformers. What is specific to an architecture is in
`architectures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging
from typing_extensions import Unpack

from ..attention.layer import BamLayer
from ..attention.method import remove_methods
from ..attention.sampling import Sampling
from ..config import BamConfig, BamSettings
from ..families import AlignmentFamily
from ..graph import convolution
from . import adapters, alternatives, expansion, hooks, implementation, memory, steps
from .architectures import READOUTS, SHARES_PREFIX
from .discovery import Site, check_graph_settings, find_sites, stochastic_uses
from .placement import classifies, has_alternatives, inference_network
from .reach import UnsupportedModelError, describe, obstacles
from .state import (
    ATTRIBUTE,
    Patch,
    bam_modules,
    find_patches,
    keep_networks,
    models_of,
    patch_of,
    root_of,
    skipped_by,
)

__all__ = ["UnsupportedModelError", "get_config", "is_patched", "kl_loss", "patch", "sampling", "set_step", "unpatch"]

LOSS_KWARGS = "accepts_loss_kwargs"
NOT_SAVED = "_keys_to_ignore_on_save"
TAGS = "model_tags"
CHANGED = (LOSS_KWARGS, NOT_SAVED, TAGS)
"""Attributes of models that patching sets and unpatching puts back."""

CARD_TAGS = ("hf_bam", "bayesian-attention")
"""Tags in model cards that transformers writes, such as those of Trainer."""

Model = TypeVar("Model", bound=nn.Module)
logger = logging.get_logger("transformers.hf_bam")


def patch(
    model: Model, config: BamConfig | None = None, *, strict: bool = True, **settings: Unpack[BamSettings]
) -> Model:
    """Turn the attention of a transformers model, or of a PyTorch Geometric model, into Bayesian attention, in place.

    In training mode attention is sampled and the loss includes the KL; in evaluation mode the model computes what it
    computed before, unless [`sampling`][hf_bam.sampling] is on. A latent alignment that was trained predicts by its
    expectation there. A model that is patched already gets the new settings; its networks are kept when they have the
    same form.

    Args:
        model: a transformers model, or a PEFT model around one; or a model with `GATConv` or `GATv2Conv` layers of
            PyTorch Geometric.
        config: the settings; [`BamConfig()`][hf_bam.BamConfig] by default.
        strict: raise `UnsupportedModelError` for a transformers model with an attention module that cannot be patched.
            False: leave such modules as they are and log a warning that names them. What was left out is saved with
            the model, and stays out when it is patched again.
        settings: fields of `BamConfig`, instead of `config` or on top of it.

    Returns:
        The same model.
    """
    config = BamConfig.from_dict(settings) if config is None else config.replace(**settings)
    root = root_of(model)
    skipped = skipped_by(root)
    if not strict and isinstance(root, PreTrainedModel):
        new = [obstacle for obstacle in obstacles(root) if obstacle.path not in skipped]
        patch_without(root, config, (*skipped, *(obstacle.path for obstacle in new)))
        if new:
            logger.warning(f"{type(root).__name__} is patched except for {describe(new)}.")
    else:
        patch_without(root, config, skipped)
    return model


def patch_without(root: nn.Module, config: BamConfig, skipped: tuple[str, ...]) -> None:
    """Patch a model, in place, except for the attention modules of these names, which stay as they are."""
    is_graph = not isinstance(root, PreTrainedModel)
    if is_graph:
        check_graph_settings(config)
    sites = find_sites(root, skipped)
    uses = stochastic_uses(sites, config)
    follows = has_alternatives(root, sites, uses, config)
    memory.check(root, config)
    patches = find_patches(root)
    for other in patches:
        if other.root is not root:
            raise ValueError(
                f"{type(root).__name__} has parts in common with a {type(other.root).__name__} that is patched; "
                "unpatch that one first."
            )
    state = patches[0] if patches else Patch(root, config)
    state.latent = sum(map(sum, uses)) if isinstance(config.settings, AlignmentFamily) else 0
    state.has_alternatives, state.classifier = follows, not is_graph and classifies(root)
    model_config: Any = getattr(root, "config", None)  # graph models have none
    recurrent = getattr(model_config, "model_type", None) in READOUTS
    state.feeds_back = recurrent and bool(model_config.input_feeding)
    layers = [_build_layer(i, *place, state, config) for i, place in enumerate(zip(sites, uses, strict=True))]
    if not is_graph:
        implementation.choose(state, sites)
    if not patches:
        _switch_on(state)
    state.config, state.skipped = config, skipped
    for site, layer in zip(sites, layers, strict=True):
        site.module.bam = layer
        (convolution if is_graph else adapters).install(site.module)
    for handle in (*state.expansions, *state.alternatives, *state.memories):
        handle.remove()
    shares_prefix = isinstance(root, PreTrainedModel) and root.config.model_type in SHARES_PREFIX
    state.expansions = expansion.install(root, state.runtime) if shares_prefix else []
    state.alternatives = alternatives.install(state)
    state.memories = memory.install(state, number=len(sites))
    state.layers = [layer for _, layer in bam_modules(root)]
    state.checkpointed = [module for module in root.modules() if hasattr(module, hooks.CHECKPOINTING)]
    for inner in models_of(root):
        if isinstance(inner, PreTrainedModel):
            keep_out_of_plain_weights(inner)


def _build_layer(number: int, site: Site, uses: tuple[bool, ...], state: Patch, config: BamConfig) -> BamLayer:
    """Return the layer of one attention module, with the networks that the module has already if they fit."""
    position: dict[str, Any] = {"decoder": site.decoder, "cross": site.cross, "uses": uses, "number": number}
    position["alternatives"] = state.has_alternatives and any(uses)
    position["queries"] = 1 if position["alternatives"] and not site.cross else None
    head_dim = site.value_dim if config.settings.stage == "output" else site.head_dim
    layer = BamLayer(config.settings, state.runtime, head_dim=head_dim, **position)
    for name, network in inference_network(state.root, site, config).items() if any(uses) else ():
        layer.add_module(name, network)
    layer.train(site.module.training)
    # Quantised weights have no dtype to compute in, but a device.
    reference = max(site.module.parameters(), key=lambda p: p.is_floating_point(), default=None)
    if reference is not None:
        layer.to(device=reference.device, dtype=reference.dtype if reference.is_floating_point() else None)
    keep_networks(site.module, layer)
    return layer


def _switch_on(state: Patch) -> None:
    for model in models_of(state.root):
        setattr(model, ATTRIBUTE, state)
        state.handles += hooks.install(model)
        state.attributes.append((model, {name: value for name, value in vars(model).items() if name in CHANGED}))
        hooks.catch_direct_calls(model)
    steps.add_counter(state.root)
    if isinstance(state.root, PreTrainedModel):
        # Without this Trainer assumes that the loss is divided by the accumulation steps already.
        setattr(state.root, LOSS_KWARGS, False)
        setattr(state.root, TAGS, list(getattr(state.root, TAGS, None) or ()))
        state.root.add_model_tags([*CARD_TAGS])


def keep_out_of_plain_weights(model: PreTrainedModel) -> None:
    """Exclude our tensors from what `save_pretrained` writes; they go to a file of their own, `bam.safetensors`."""
    ours = {name for name in model.state_dict() if steps.BUFFER in name or ".bam." in f".{name}"}
    setattr(model, NOT_SAVED, {*(getattr(model, NOT_SAVED) or ()), *ours})


def unpatch(model: Model) -> Model:
    """Restore the plain model, in place, with its weights as trained so far."""
    state = patch_of(model)
    for handle in (*state.handles, *state.expansions, *state.alternatives, *state.memories):
        handle.remove()
    for module in state.root.modules():
        if isinstance(getattr(module, "bam", None), BamLayer):
            del module.bam
            remove_methods(module)
        vars(module).pop(ATTRIBUTE, None)
    steps.remove_counter(state.root)
    for inner, kept in state.attributes:
        hooks.release_direct_calls(inner)
        for name in CHANGED:
            vars(inner).pop(name, None)
        vars(inner).update(kept)
    implementation.restore(state)
    return model


def is_patched(model: nn.Module) -> bool:
    """Return whether the model, or one inside it, has Bayesian attention."""
    return bool(find_patches(model))


def get_config(model: nn.Module) -> BamConfig:
    """Return the settings of a patched model."""
    return patch_of(model).config


@contextmanager
def sampling(
    model: Model, seed: int | None = None, *, fixed: bool = False, groups: int | None = None
) -> Iterator[Model]:
    """Sample the attention of a model in evaluation mode, anew in every forward within this context.

    Args:
        seed: samples are a function of this seed, of the number of the forward, of the row in the batch and of the
            position of a weight; the global random state is not used. None: every forward takes a seed from the global
            generator.
        fixed: use the same noise in the whole context. The noise of a weight is then a function of its layer, head,
            query and key position and its row in the batch, so that `generate` uses one attention function from the
            first token to the last, with or without a cache.
        groups: with `fixed`, number of equal parts of a batch whose rows share their noise: the beams of one input,
            which change places during the search.

    Training mode always samples, from the global generator; `torch.manual_seed` makes it reproducible. Outputs of a
    model with a latent alignment have its sample, `out.alignment`, (B, T, S) weights.
    """
    with patch_of(model).runtime.sample(Sampling(seed, fixed, groups)):
        yield model


def kl_loss(model: nn.Module) -> torch.Tensor:
    """Return the weighted KL of the model's last forward in training mode in this thread.

    It is `kl_loss` of the output, for code that does not have the output: a model inside a module of your own, or a
    tuple without a loss.
    """
    term = patch_of(model).runtime.kl_loss
    if term is None:
        raise RuntimeError(
            f"This {type(model).__name__} has no KL yet: it comes with a forward in training mode. Call model.train() "
            "and run a batch first."
        )
    return term


def set_step(model: nn.Module, step: int) -> None:
    """Set the optimizer step of a patched model, for the annealing of the KL weight.

    Usually not needed: the steps of a `torch.optim` optimizer that trains the model are counted, and the count is
    saved with the weights.
    """
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step={step!r} is not valid; it must be a whole number, 0 or above.")
    steps.step_of(patch_of(model).root).fill_(step)
