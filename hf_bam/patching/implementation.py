"""Attention implementation of the models whose attention modules use transformers' attention interface."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..attention.interface import NAME, NAMES, WITH_MASK
from .discovery import Site
from .reach import UnsupportedModelError, uses_interface
from .state import Patch, models_of


def choose(state: Patch, sites: list[Site]) -> None:
    """Set the attention implementation of all models with a site that uses the interface, and of no others.

    A module with an adapter keeps the mask of its model's own implementation.
    """
    root: Any = state.root
    own = [site for site in sites if uses_interface(type(site.module))]
    check_skipped(root, {id(site.module) for site in sites}, own)
    modules = {id(site.module) for site in own}
    involved = [model for model in models_of(root) if any(id(inner) in modules for inner in model.modules())]
    kept = {id(part.config) for part in (*involved, *(site.module for site in own))}
    if not state.implementations:
        configs: list[Any] = [m.config for m in (*models_of(root), *(site.module for site in own))]
        state.implementations = [(c, plain(c, id(c) in kept)) for c in by_identity(configs)]
    if own:
        root.set_attn_implementation(NAME)
    for model in involved:
        if not model._supports_sdpa:
            model.config._attn_implementation = WITH_MASK
    for config, implementation in state.implementations:
        if id(config) not in kept:
            config._attn_implementation = implementation
    for site in own:
        if config_of(site)._attn_implementation not in NAMES:
            restore(state)
            raise UnsupportedModelError(
                f"{type(state.root).__name__} cannot be patched: {site.path} ({type(site.module).__name__}) does not "
                "follow model.set_attn_implementation()."
            )


def plain(config: Any, has_interface: bool) -> Any:
    """Return the implementation of a plain model; `"bam"` is none for a model without the interface."""
    implementation = config._attn_implementation
    return implementation if has_interface or implementation not in NAMES else "eager"


def check_skipped(root: nn.Module, patched: set[int], own: list[Site]) -> None:
    """Raise for a module that is left out but would follow the implementation of those that are patched."""
    configs = {id(config_of(site)) for site in own}
    for path, module in root.named_modules():
        follows = uses_interface(type(module)) and id(module) not in patched
        if follows and id(getattr(module, "config", None)) in configs:
            raise UnsupportedModelError(
                f"{type(root).__name__} cannot be patched without {path} ({type(module).__name__}): it has its "
                "attention implementation in common with modules that can be patched."
            )


def restore(state: Patch) -> None:
    """Put back the implementations that the models had."""
    for config, implementation in state.implementations:
        config._attn_implementation = implementation


def config_of(site: Site) -> Any:
    return site.module.config


def by_identity(configs: list[Any]) -> list[Any]:
    """Return configs without repetitions; they cannot be hashed."""
    return list({id(config): config for config in configs}.values())
