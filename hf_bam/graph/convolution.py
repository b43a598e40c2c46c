"""Place of Bayesian attention in the graph layers of PyTorch Geometric.

A `GATConv` or `GATv2Conv` computes its weights in `edge_update`: scores of the edges, `softmax` over the neighbours,
dropout. Its `message` then multiplies them with the features of the neighbours. A patched layer has both methods as
attributes of its own. `EdgeUpdate` runs the code of the layer's class with another `softmax`; `Message` adds the KL,
whose prior reads those features. In mean mode both call the methods of the class.
"""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from ..attention.layer import BamLayer
from ..attention.method import Method
from .edges import EdgeCall

LAYERS = ("GATConv", "GATv2Conv")
"""Classes of torch_geometric.nn that can be patched, and classes derived from them."""
UPDATE, MESSAGE, SOFTMAX = "edge_update", "message", "softmax"


class EdgeUpdate(Method):
    """Weights of the edges, sampled in training mode and within `hf_bam.sampling`."""

    name = UPDATE

    @torch.compiler.disable
    def __call__(self, **arguments: Any) -> Tensor:
        layer, plain = self.layer, self.plain()
        if layer is None or not layer.is_stochastic(0):
            return plain(self.module, **arguments)
        frame = layer.runtime.frame
        use = 0 if frame is None else frame.next_use(layer.number)
        if frame is not None:
            frame.sampled = True
        softmax = partial(sampled_softmax, plain.__globals__[SOFTMAX], layer, use)
        return with_global(plain, SOFTMAX, softmax)(self.module, **arguments)


class Message(Method):
    """Messages along the edges. In training the KL of the weights goes to the open forward pass."""

    name = MESSAGE

    @torch.compiler.disable
    def __call__(self, **arguments: Any) -> Tensor:
        layer = self.layer
        call = None if layer is None else layer.runtime.edge_calls.pop(layer.number, None)
        if call is not None and call.layer.training:
            call.layer.collect(call.kl_term(arguments["x_j"]))  # (E, H, D)
        return self.plain()(self.module, **arguments)


def sampled_softmax(
    softmax: Any,
    layer: BamLayer,
    use: int,
    scores: Tensor,
    index: Tensor,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
    dim: int = 0,
) -> Tensor:
    """Return sampled weights in the place of `softmax`, whose arguments are the last five."""
    call = EdgeCall(layer, use, scores, index, num_nodes)
    if layer.training and call.family.has_kl:
        layer.runtime.edge_calls[layer.number] = call
    weights: Tensor = softmax(call.sample(), index, ptr, num_nodes, dim)
    return weights.to(scores.dtype)


def with_global(function: FunctionType, name: str, value: Any) -> FunctionType:
    """Return a copy of a function in which a global name has another value."""
    made = FunctionType(
        function.__code__,
        {**function.__globals__, name: value},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def install(conv: nn.Module) -> None:
    """Give a graph layer, which has its Bayesian layer under `bam`, its sampled methods."""
    for method in (EdgeUpdate(conv), Message(conv)):
        method.install()


def has_attention(module: nn.Module) -> bool:
    """Return whether a module is a graph layer with attention, one that can be patched or another.

    Such a layer passes messages, and one of its methods calls PyG's `softmax`.
    """
    cls = type(module)
    return callable(getattr(cls, UPDATE, None)) and any(
        _calls(base, name, SOFTMAX) for base in cls.__mro__ if _is_torch_geometric(base) for name in vars(base)
    )


def is_supported(module: nn.Module) -> bool:
    """Return whether a module is one of `LAYERS`, or derived from one."""
    return any(base.__name__ in LAYERS and _is_torch_geometric(base) for base in type(module).__mro__)


def problem(conv: nn.Module, path: str) -> str | None:
    """Return why a graph layer with attention, which is at this path, cannot be patched; None if it can."""
    name = f"{path or 'it'} ({type(conv).__name__})"
    if not is_supported(conv):
        return f"{name} is none of {', '.join(LAYERS)}."
    if not (_calls(type(conv), "forward", "edge_updater") or _calls(type(conv), "forward", "super")):
        return f"{name} has a forward that does not compute its weights in edge_update."
    if not _calls(type(conv), UPDATE, SOFTMAX):
        return f"{name} has an edge_update of its own that does not call softmax."
    if getattr(conv, "decomposed_layers", 1) != 1:
        return f"{name} has decomposed_layers, which attention cannot have."
    return None


def _is_torch_geometric(cls: type) -> bool:
    return any(base.__module__.partition(".")[0] == "torch_geometric" for base in cls.__mro__)


def _calls(cls: type, method: str, name: str) -> bool:
    function = getattr(cls, method, None)
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return code is not None and name in code.co_names
