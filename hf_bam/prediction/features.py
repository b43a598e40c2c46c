"""Features of an input: vectors of a model before its logits.

`features` is the vector from which the last linear layer makes the logits. Where that layer runs on every token, it is
the vector of the token whose logits the model returns, the last one that is not padding; or the mean over the tokens
that are not padding, if the model returns the logits of all tokens.

`features of layer n` is the mean of the hidden states after layer n over the tokens that are not padding. There is one
after two thirds of the layers and one after all. Encoder-decoder models have those of the encoder.

`features of the first token` is the last hidden state of the first token, in encoders that make one vector of a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..patching.architectures import POOLING
from ..patching.expansion import repeat
from ..patching.state import base_model
from .copies import Model, shared_copy
from .results import Array

NAME = "features"
"""Name of the features before the last linear layer, and beginning of the names of the others."""
DEPTHS = (2 / 3, 1)
"""Shares of the layers after which there are features."""


def with_features(model: Model, size: int) -> Model:
    """Return a copy of a model whose outputs have further fields, the features, (B, D) each.

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

    def ask(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, "output_hidden_states": True}

    def add(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        logits, mask = output.get("logits"), kwargs.get("attention_mask")
        of_text = logits is not None and logits.dim() == 2
        pooling = POOLING.get(root.config.model_type, "last") if of_text else "mean"
        read = recorded.pop()
        for name, x in layer_features(output, mask).items():
            output[name] = x
        if read.dim() == 2 and output.get("hidden_states") and output["hidden_states"][-1].dim() == 3:
            output[f"{NAME} of the first token"] = output["hidden_states"][-1][:, 0]
        output[NAME] = pooled(read, mask, pooling)

    for layer in layers:
        layer.register_forward_pre_hook(record)
    root.register_forward_pre_hook(ask, with_kwargs=True)
    root.register_forward_hook(add, with_kwargs=True)
    return model


def layer_features(output: Mapping[str, Any], mask: Tensor | None) -> dict[str, Tensor]:
    """Return the mean hidden states of some layers, (B, D) each, from the output of a model that has hidden states."""
    states = output.get("encoder_hidden_states") or output.get("hidden_states") or ()
    last = len(states) - 1  # the first are the embeddings
    layers = dict.fromkeys(math.ceil(last * depth - 1e-9) for depth in DEPTHS) if last > 0 else ()
    return {f"{NAME} of layer {layer}": pooled(states[layer], mask) for layer in layers}


def features_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features in an output by name, those before the last linear layer last."""
    return {name: output[name] for name in sorted(output, key=NAME.__eq__) if name.startswith(NAME)}


def stacked(rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the features of a batch by name, (B, D) each, from those of each input."""
    return {name: np.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}


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
        pooling: "mean" of the tokens that are not padding, the "first" token, the "last" that is not padding, or the
            "next" behind it.
    """
    if x.dim() == 2 or pooling == "first":
        return x if x.dim() == 2 else x[:, 0]
    mask = torch.ones(1, x.shape[1], dtype=torch.long) if mask is None else mask
    mask = repeat(mask.to(x.device), len(x) // len(mask))  # (N, T)
    if pooling == "mean":
        weights = mask.float() / mask.sum(dim=-1, keepdim=True)
        return (x.float() * weights[..., None]).sum(dim=1)
    last = (mask * torch.arange(x.shape[1], device=x.device)).argmax(dim=-1)
    token = last if pooling == "last" else (last + 1).clamp(max=x.shape[1] - 1)
    return x[torch.arange(len(x), device=x.device), token]
