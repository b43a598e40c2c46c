"""Way of the alternatives of a latent alignment through the rest of a model.

The output of the attention module gets a leading dimension of alternatives, (K, B, T, D) instead of (B, T, D). What
follows works position by position and broadcasts over it, so that the logits are (K, B, T, V); encoder, cache and
earlier layers run once.

An encoder that classifies by its first token runs its last layer once more, for that token alone and with the
alternatives in the place of its attention. They are in the batch, (K * B, 1, D), as are the logits, (K * B, C).

A recurrent decoder feeds the output of its attention back. That is always soft attention, and the alternatives enter
the layer that reads it for the prediction.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from ..attention.runtime import Runtime
from ..families.record import Choice
from .architectures import PROJECTIONS, READOUTS
from .state import Patch, bam_modules


def install(patch: Patch) -> list[RemovableHandle]:
    """Add a hook to the attention module with a latent alignment whose alternatives can follow behind it."""
    if not patch.has_alternatives:
        return []
    handles = []
    for path, layer in [(path, layer) for path, layer in bam_modules(patch.root) if any(layer.uses)]:
        parent, _, name = path.removesuffix(".bam").rpartition(".")
        if layer.queries is not None:
            block = re.match(r".*\.\d+(?=\.)", path)
            assert block is not None
            again = partial(run_again, patch.runtime)
            handles.append(patch.root.get_submodule(block[0]).register_forward_hook(again, with_kwargs=True))
            continue
        around, module = patch.root.get_submodule(parent), patch.root.get_submodule(f"{parent}.{name}")
        readout = READOUTS.get(model_type(module))
        if readout is None:
            handles.append(module.register_forward_hook(partial(add_alternatives, patch.runtime)))
        else:
            reader = around.get_submodule(readout)
            handles.append(reader.register_forward_pre_hook(partial(replace_context, patch.runtime)))
    return handles


def model_type(module: nn.Module) -> str:
    config: Any = module.config
    return str(config.model_type)


def taken(runtime: Runtime) -> Choice | None:
    """Return the alternatives that wait for the rest of the model; None where there are none."""
    frame = runtime.frame
    return None if frame is None or frame.alignment is None else frame.alignment.take()


def add_alternatives(runtime: Runtime, module: nn.Module, args: Any, output: Any) -> Any:
    """Replace the output of an attention module, (B, T, D), by the alternatives of its alignment, (K, B, T, D)."""
    choice = taken(runtime)
    if choice is None:
        return None
    soft, *rest = output
    values = choice.value.transpose(1, 2).flatten(2)  # (B, S, H * D_v)
    projection = PROJECTIONS[model_type(module)]
    if projection is not None:
        values = getattr(module, projection)(values)  # (B, S, D)
    found = at_positions(values, choice).to(soft.dtype)
    return torch.cat([found, soft.detach()[None]]) if choice.soft else found, *rest


def run_again(runtime: Runtime, block: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
    """Return the output of a layer for its first token and the alternatives of its alignment, (K * B, 1, D)."""
    choice = taken(runtime)
    if choice is None:
        return None
    record: Any = None if runtime.frame is None else runtime.frame.alignment
    heads = choice.value.shape[1]
    context = at_positions(choice.value.transpose(1, 2).flatten(2), choice)  # (K, B, 1, H * D_v)
    if choice.soft:
        soft = (choice.weights[:, :, :1].to(choice.value.dtype) @ choice.value.detach()).transpose(1, 2).flatten(2)
        context = torch.cat([context, soft[None]])
    hidden = args[0] if args else kwargs["hidden_states"]
    hidden = hidden[:, :1].repeat(len(context), 1, 1)
    args, kwargs = pytree.tree_map(lambda value: None if isinstance(value, Tensor) else value, (args, kwargs))
    record.forced = context.reshape(*hidden.shape[:2], heads, -1)
    try:
        return block.forward(hidden, *args[1:], **{k: v for k, v in kwargs.items() if k != "hidden_states"})
    finally:
        record.forced = None


def replace_context(runtime: Runtime, module: nn.Module, args: Any) -> Any:
    """Replace the context in the input of a readout layer, (B, T, states and context), by alternatives of it."""
    choice = taken(runtime)
    if choice is None:
        return None
    (inputs,) = args
    context = at_positions(choice.value.transpose(1, 2).flatten(2), choice).to(inputs.dtype)  # (K, B, T, H * D_v)
    states = inputs[..., : -context.shape[-1]].expand(*context.shape[:-1], -1)
    found = torch.cat([states, context], dim=-1)
    return torch.cat([found, inputs.detach()[None]]) if choice.soft else found


def at_positions(values: Tensor, choice: Choice) -> Tensor:
    """Return the values (B, S, D) at the positions of the alternatives, (K, B, T, D)."""
    if choice.index is None:
        return values.transpose(0, 1).unsqueeze(2).expand(-1, -1, choice.log_weight.shape[2], -1)
    rows = torch.arange(values.shape[0], device=values.device)[None, :, None]
    return values[rows, choice.index]
