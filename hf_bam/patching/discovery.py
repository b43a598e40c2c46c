"""Search for the attention modules of a model."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from ..config import BamConfig
from ..families import ScoreFamily
from ..graph.convolution import has_attention, problem
from .architectures import CROSS, HEAD_DIM, HEADS, SHARED_LAYERS, VALUE_DIM
from .reach import UnsupportedModelError, check_reachable, is_reachable, is_within
from .state import skipped_by


@dataclass(frozen=True)
class Site:
    """Attention module of a model.

    Attributes:
        path: its name within the model.
        stack: the list of layers it belongs to, apart for self- and cross-attention.
        layers: its layers within the stack; several for a shared module.
    """

    path: str
    module: nn.Module
    stack: str
    layers: tuple[int, ...]
    cross: bool
    decoder: bool

    @property
    def head_dim(self) -> int:
        for name in HEAD_DIM:
            if isinstance(size := getattr(self.module, name, None), int):
                return size
        raise UnsupportedModelError(
            f"{self.path} ({type(self.module).__name__}) has no attribute for the size of its heads: "
            f"none of {', '.join(HEAD_DIM)} is there."
        )

    @property
    def value_dim(self) -> int:
        found = (getattr(self.module, name, None) for name in VALUE_DIM)
        return next((size for size in found if isinstance(size, int)), self.head_dim)

    @property
    def heads(self) -> int:
        for name in HEADS:
            if isinstance(number := getattr(self.module, name, None), int):
                return number
        raise UnsupportedModelError(
            f"{self.path} ({type(self.module).__name__}) has no attribute for the number of its heads: "
            f"none of {', '.join(HEADS)} is there."
        )


def find_sites(model: nn.Module, skipped: Collection[str] | None = None) -> list[Site]:
    """Return all attention modules of the model, or raise an error that names the one that cannot be reached.

    Args:
        skipped: names of modules that stay as they are. None: those that an earlier call of `patch` left out.
    """
    if not isinstance(model, PreTrainedModel):
        return find_graph_sites(model)
    return find_text_sites(model, skipped_by(model) if skipped is None else skipped)


def find_graph_sites(model: nn.Module) -> list[Site]:
    """Return the attention layers of a PyTorch Geometric model.

    Layers under the same number of a list are one layer: the relations of a heterogeneous graph.
    """
    sites, depth = [], dict[str, int]()
    for path, module in model.named_modules():
        if not has_attention(module):
            continue
        if (reason := problem(module, path)) is not None:
            raise UnsupportedModelError(f"{type(model).__name__} cannot be patched: {reason}")
        layer = re.match(r"(.*?(^|\.)\d+)(\.|$)", path)
        number = depth.setdefault(path if layer is None else layer[1], len(depth))
        bipartite = isinstance(module.in_channels, (tuple, list))
        sites.append(Site(path, module, "graph", (number,), cross=bipartite, decoder=False))
    return sites


def check_graph_settings(config: BamConfig) -> None:
    """Raise `ValueError` for settings that graph attention does not have."""
    family = config.settings
    if not isinstance(family, ScoreFamily):
        raise ValueError(
            f"BamConfig.family={config.family!r} is not valid for a graph: it makes the {family.stage} of attention "
            "random, and graph layers have random scores only."
        )
    if family.noise != "entry":
        raise ValueError(
            f"BamConfig.noise={family.noise!r} is not valid for a graph; it must be 'entry', a value for every edge."
        )


def find_text_sites(model: PreTrainedModel, skipped: Collection[str]) -> list[Site]:
    """Return the attention modules of a transformers model."""
    check_reachable(model, skipped)
    depth: dict[str, int] = {}
    sites = []
    for path, module in model.named_modules():
        if not is_reachable(type(module)) or is_within(path, skipped):
            continue
        # "decoder.block.0.layer.1.EncDecAttention" is a cross-attention of the stack "decoder.block".
        prefix, *place = re.split(r"\.\d+\.", path, maxsplit=1)
        # A module outside of a list of layers shows by its own name what it is.
        cross = CROSS.search(place[0] if place else path.rpartition(".")[2]) is not None
        stack = f"{prefix} ({'cross' if cross else 'self'})"
        model_config = getattr(module, "config", model.config)
        if shared := SHARED_LAYERS.get(model_config.model_type):
            layers = shared(model_config, path)
        else:
            layers = (depth.get(stack, 0),)
            depth[stack] = layers[0] + 1
        decoder = bool(model.config.is_encoder_decoder) and "decoder" in path.split(".")
        sites.append(Site(path, module, stack, layers, cross, decoder))
    if not sites:
        raise UnsupportedModelError(
            f"{type(model).__name__} has no attention that goes through transformers' attention interface."
        )
    return sites


def stochastic_uses(sites: list[Site], config: BamConfig) -> list[tuple[bool, ...]]:
    """Return for every site and every use of it within a forward whether `config` selects it."""
    stacks: dict[str, set[int]] = {}
    for site in sites:
        stacks.setdefault(site.stack, set()).update(site.layers)
    has_cross = any(site.cross for site in sites)
    kinds = {"both": (False, True), "self": (False,), "cross": (True,), "alignment": (has_cross,)}[config.attention]
    if not config.settings.in_attention:
        return [(False,) * len(site.layers) for site in sites]
    wanted = {stack: _select(config.layers, len(layers)) for stack, layers in stacks.items()}
    uses = [tuple(site.cross in kinds and layer in wanted[site.stack] for layer in site.layers) for site in sites]
    if not any(map(any, uses)) or not _exist(config.layers, max(map(len, stacks.values()))):
        sizes = ", ".join(f"{stack}: {len(layers)}" for stack, layers in stacks.items())
        raise ValueError(
            f"BamConfig.layers={config.layers!r} with attention={config.attention!r} asks for attention that this "
            f"model does not have; its stacks and their numbers of layers are {sizes}."
        )
    return uses


def _exist(layers: str | int | tuple[int, ...], depth: int) -> bool:
    if isinstance(layers, tuple):
        return all(-depth <= layer < depth for layer in layers)
    return layers == "all" or int(layers) <= depth


def _select(layers: str | int | tuple[int, ...], depth: int) -> set[int]:
    if isinstance(layers, tuple):
        return {layer + depth if layer < 0 else layer for layer in layers}
    first = 0 if layers == "all" else max(0, depth - int(layers))
    return set(range(first, depth))
