"""Latent variables of the encoder's states, which replace them where they enter the decoder."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from ..attention.call import AttentionCall
from ..attention.layer import MemoryLayer
from ..attention.mask import AttentionMask
from ..config import BamConfig, common_defaults
from .reach import UnsupportedModelError
from .state import Patch, keep_networks

STATES, OUTPUTS, MASK = "encoder_hidden_states", "encoder_outputs", "encoder_attention_mask"
"""Arguments of a decoder: the encoder's states, its whole output (recurrent models), and the mask of its padding."""


def check(model: nn.Module, config: BamConfig) -> None:
    """Raise an error for a latent variable of encoder states that the model or the settings cannot have.

    Raises:
        UnsupportedModelError: for a model without a decoder that reads states of an encoder.
        ValueError: for a choice of attention modules with a family that leaves all of them as they are.
    """
    usual, family = common_defaults(config.family), config.settings
    for name in ("layers", "attention") if family.stage == "memory" and not family.in_attention else ():
        if getattr(config, name) != usual[name]:
            raise ValueError(
                f"BamConfig.{name}={getattr(config, name)!r} has no effect with family={config.family!r}, which "
                f"changes the memory of the decoder and no attention; leave it at {usual[name]!r}."
            )
    if family.memory(1) is None or find_decoder(model) is not None:
        return
    raise UnsupportedModelError(
        f"{type(model).__name__} cannot have this family={config.family!r}: its latent variable is in the memory of a "
        "decoder, so it needs an encoder-decoder model (BART, Marian, T5, the recurrent one)."
    )


def find_decoder(model: nn.Module) -> Any:
    """Return the decoder of an encoder-decoder model; None for other models."""
    if not isinstance(model, PreTrainedModel) or not model.config.is_encoder_decoder:
        return None
    decoder = model.get_decoder()
    names = inspect.signature(type(decoder).forward).parameters
    return decoder if {STATES, OUTPUTS} & names.keys() else None


def install(patch: Patch, number: int) -> list[RemovableHandle]:
    """Put the latent variable of a family into the decoder, in the place of an earlier one, with its hook.

    Args:
        number: index of its layer, behind those of the attention modules.
    """
    decoder = find_decoder(patch.root)
    if decoder is None:
        return []
    width = getattr(decoder.config, "cross_attention_hidden_size", None) or decoder.config.hidden_size
    memory = patch.config.settings.memory(width)
    old = getattr(decoder, "bam", None)
    if memory is None:
        patch.code_prior = None
        if isinstance(old, MemoryLayer):
            del decoder.bam
        return []
    layer = MemoryLayer(patch.config.settings, patch.runtime, memory, number=number)
    layer.to(next(decoder.parameters()).device).train(decoder.training)
    keep_networks(decoder, layer)
    if layer.memory is not getattr(old, "memory", None):
        patch.code_prior = None  # that of other codes
    decoder.bam = layer
    names = tuple(inspect.signature(type(decoder).forward).parameters)[1:]
    return [decoder.register_forward_pre_hook(partial(replace_states, argument_names=names), with_kwargs=True)]


def replace_states(
    decoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, argument_names: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a decoder with states of the memory in the place of those of the encoder."""
    inputs = {**dict(zip(argument_names, args, strict=False)), **kwargs}
    source: Any = inputs.get(OUTPUTS)
    states: Tensor | None = inputs.get(STATES) if source is None else source.last_hidden_state
    if states is None:
        return None
    given: Tensor | None = inputs.get(MASK)
    mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device) if given is None else given.bool()
    layer: Any = decoder.bam
    states, mask = layer.memory(states, mask, make_call(layer, states, mask))
    if source is None:
        inputs[STATES] = states
    else:
        inputs[OUTPUTS] = type(source)(**{**source, "last_hidden_state": states})
    if given is not None:
        inputs[MASK] = mask.to(given.dtype)
    return (), inputs


def make_call(layer: MemoryLayer, states: Tensor, mask: Tensor) -> AttentionCall:
    """Return a call whose queries, keys and values are encoder states (B, S, D), as one head."""
    batch, length, _ = states.shape
    own = states[:, None]
    return AttentionCall(
        layer, 0, own, own, own, AttentionMask((batch, 1, length, length), mask[:, None, None]), scale=1.0
    )
