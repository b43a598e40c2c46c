"""Features of an input: the vector from which the last linear layer of a model makes the logits.

Where that layer runs on every token, it is the vector of the token whose logits the model returns, the last one that
is not padding; or the mean over the tokens that are not padding, if the model returns the logits of all tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..patching.architectures import POOLING
from ..patching.expansion import repeat
from ..patching.state import base_model
from .copies import Model, shared_copy

HOOKS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs")
"""Dictionaries of a module with its forward hooks."""


def with_features(model: Model, size: int) -> Model:
    """Return a copy of a model whose outputs have one more field, `features`, (B, D).

    The copy shares parameters and buffers with the model and serves one thread.

    Args:
        size: number of logits, by which the layer that makes them is found.
    """
    model = shared_copy(model)
    root = base_model(model)
    layers = list(linear_layers(root, size))
    if not layers:
        raise ValueError(
            f"This {type(root).__name__} has no linear layer with {size} outputs, so it has no features before it."
        )
    recorded: list[Tensor] = []

    def record(module: nn.Module, args: tuple[Any, ...]) -> None:
        recorded[:] = args[:1]  # the last of these layers that runs makes the logits

    def add(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        logits = output.get("logits")
        of_text = logits is not None and logits.dim() == 2
        pooling = POOLING.get(root.config.model_type, "last") if of_text else "mean"
        output["features"] = pooled(recorded.pop(), kwargs.get("attention_mask"), pooling)

    for module in (root, *layers):
        for name in HOOKS:
            setattr(module, name, OrderedDict(getattr(module, name)))
        vars(module).pop("_compiled_call_impl", None)  # it calls the caller's module
    for layer in layers:
        layer.register_forward_pre_hook(record)
    root.register_forward_hook(add, with_kwargs=True)
    return model


def linear_layers(module: nn.Module, size: int) -> Iterator[nn.Module]:
    """Yield the linear layers with `size` outputs; for PEFT's, the one around the layer and its adapter."""
    if getattr(module, "out_features", None) == size:
        yield module
        return
    for child in module.children():
        yield from linear_layers(child, size)


def pooled(x: Tensor, mask: Tensor | None, pooling: str = "mean") -> Tensor:
    """Return one vector for each text, (N, D).

    Args:
        x: (N, D) vectors, which are returned as they are, or (N, T, D) vectors of tokens.
        mask: (B, T), 1 for tokens that are not padding; N may be a multiple of B. None: there is no padding.
        pooling: "mean" of the tokens that are not padding, the "last" of them, or the "next" behind it.
    """
    if x.dim() == 2:
        return x
    mask = torch.ones(1, x.shape[1], dtype=torch.long) if mask is None else mask
    mask = repeat(mask.to(x.device), len(x) // len(mask))  # (N, T)
    if pooling == "mean":
        weights = mask.float() / mask.sum(dim=-1, keepdim=True)
        return (x.float() * weights[..., None]).sum(dim=1)
    last = (mask * torch.arange(x.shape[1], device=x.device)).argmax(dim=-1)
    token = last if pooling == "last" else (last + 1).clamp(max=x.shape[1] - 1)
    return x[torch.arange(len(x), device=x.device), token]
