"""Latent alignments in a forward pass: alternatives behind an attention module, and the loss over all of them.

The output of the attention module gets a leading dimension of alternatives, (K, B, T, D) instead of (B, T, D). What
follows works position by position and broadcasts over it, so that the logits are (K, B, T, V); encoder, cache and
earlier layers run once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..attention.frame import Frame
from ..attention.layer import BamLayer
from ..families import Alignment, AlignmentFamily
from ..families.alignment import Choice
from ..objective.alignment import differentiable_mixture, log_likelihood, marginal, mixture, token_mean
from .architectures import MASKS_TARGET, NO_CACHE, PROJECTIONS
from .placement import target_embeddings
from .state import Patch, bam_modules

HIDDEN_STATES = ("decoder_hidden_states", "hidden_states")
"""Fields of outputs with the states of the layers."""


def install(patch: Patch) -> list[RemovableHandle]:
    """Add a hook to every attention module with a latent alignment."""
    if not isinstance(patch.config.settings, AlignmentFamily):
        return []
    paths = [path for path, layer in bam_modules(patch.root) if any(layer.uses)]
    return [
        patch.root.get_submodule(path.rpartition(".")[0]).register_forward_hook(add_alternatives) for path in paths
    ]


def add_alternatives(module: nn.Module, args: Any, output: Any) -> Any:
    """Replace the output of an attention module, (B, T, D), by the alternatives of its alignment, (K, B, T, D)."""
    layer: BamLayer = module.bam  # type: ignore[assignment]
    frame = layer.runtime.frame
    record = None if frame is None else frame.alignment
    if record is None or record.pending is None:
        return None
    choice, record.pending = record.pending, None
    record.chosen.append(choice)
    soft, *rest = output
    return alternatives(module, choice, soft), *rest


def alternatives(module: nn.Module, choice: Choice, soft: Tensor) -> Tensor:
    """Return the outputs of an attention module for the alternatives of an alignment, (K, B, T, D)."""
    config: Any = module.config
    name = PROJECTIONS[config.model_type]
    values = choice.value.transpose(1, 2).flatten(2)  # (B, S, H * D_v)
    if name is not None:
        values = getattr(module, name)(values)  # (B, S, D)
    if choice.index is None:
        found = values.transpose(0, 1).unsqueeze(2).expand(-1, -1, choice.log_weight.shape[2], -1)
    else:
        rows = torch.arange(values.shape[0], device=values.device)[None, :, None]
        found = values[rows, choice.index]
    found = found.to(soft.dtype)
    return torch.cat([found, soft.detach()[None]]) if choice.soft else found


def begin(patch: Patch, frame: Frame, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """Open the record of a forward pass with a latent alignment.

    Returns the arguments of the forward without labels where alternatives will follow the attention, and None where
    nothing changes.
    """
    family, model = patch.config.settings, frame.owner
    if not isinstance(family, AlignmentFamily) or not is_root(model, patch):
        return None
    labels = inputs.get("labels")
    embed = partial(embed_target, model)
    if patch.runtime.records is not None:
        frame.alignment = Alignment(labels, embed, only_record=True)
        patch.runtime.records.append(frame.alignment)
        return None
    expectation = frame.sampling is None and family.has_expectation
    if not model.training and not expectation:
        return None
    if model.training and labels is None and family.needs_labels:
        raise ValueError(
            f"BamConfig.objective={family.objective!r} is trained from labels, and this forward has none. Pass "
            "labels=... to the model, and leave the label_smoothing_factor of a Trainer at 0, which takes them away."
        )
    frame.alignment = Alignment(labels if model.training else None, embed)
    if model.training and not family.has_alternatives:
        return None
    frame.alignment.given = dict(inputs)
    return without_labels(model, inputs)


def is_root(model: nn.Module, patch: Patch) -> bool:
    """Return whether a model is the patched one, or a copy of it that shares its tensors, and not a part of it."""
    return type(model) is type(patch.root) and model.config is patch.root.config


def embed_target(model: Any, labels: Tensor) -> Tensor:
    """Return the embeddings of labels, (B, T, E)."""
    found: Tensor = target_embeddings(model)(labels)
    return found


def without_labels(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward without labels, with the decoder inputs that the model makes from them."""
    inputs = {**inputs, "return_dict": True}
    labels = inputs.pop("labels", None)
    if labels is None:
        return inputs
    if model.config.model_type in NO_CACHE:
        inputs["use_cache"] = False
    if inputs.get("decoder_input_ids") is None and inputs.get("decoder_inputs_embeds") is None:
        ids = inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
        if model.config.model_type in MASKS_TARGET and inputs.get("decoder_attention_mask") is None:
            inputs["decoder_attention_mask"] = (ids != model.config.pad_token_id).to(ids.dtype)
    return inputs


def finish(patch: Patch, frame: Frame, output: Any) -> Any:
    """Return the output of a forward with alternatives as the caller expects it: loss, and logits (B, T, V)."""
    record = frame.alignment
    if record is None or not record.chosen:
        return output
    family: Any = patch.config.settings
    choice, given = record.joined(), record.given
    labels: Tensor | None = given.get("labels")
    logits: Tensor = output.logits  # (K, B, T, V)
    changed: dict[str, Any] = {}
    if labels is not None:
        log_f = log_likelihood(logits, labels.to(logits.device))
        objective = family.log_likelihood if frame.owner.training else marginal
        values = objective(log_f, choice.log_weight)
        changed["loss"] = -token_mean(values, labels)
    if choice.soft:
        changed["logits"] = logits[-1].detach()
    else:
        mix = mixture if labels is not None or not torch.is_grad_enabled() else differentiable_mixture
        changed["logits"] = mix(logits, choice.log_p)
    for name in HIDDEN_STATES:
        if output.get(name) is not None:
            changed[name] = tuple(expected_state(state, choice) for state in output[name])
    output = type(output)(**{**output, **changed})
    return output if returns_dict(frame.owner, given) else output.to_tuple()


def expected_state(state: Tensor, choice: Choice) -> Tensor:
    """Return the mean over the alternatives of a hidden state that has them, and others as they are."""
    if state.dim() < 4:
        return state
    if choice.soft:
        return state[-1]
    return (choice.log_p.exp()[..., None] * state).sum(dim=0).to(state.dtype)


def returns_dict(model: Any, given: dict[str, Any]) -> bool:
    """Return whether the caller of a forward expects a `ModelOutput` rather than a tuple."""
    wanted = given.get("return_dict")
    return bool(model.config.return_dict if wanted is None else wanted)
