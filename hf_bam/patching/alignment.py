"""Latent alignments in a forward pass: their record, and the loss and logits over the alternatives.

See `hf_bam.patching.alternatives` for the way of the alternatives through the model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from ..attention.frame import Frame
from ..families import Alignment, AlignmentFamily
from ..families.record import Choice
from ..objective.alignment import differentiable_mixture, log_likelihood, marginal, mixture, token_mean
from . import steps
from .architectures import MASKS_TARGET, NO_CACHE
from .outputs import with_fields
from .placement import target_embeddings
from .state import Patch

HIDDEN_STATES = ("decoder_hidden_states", "hidden_states")
"""Fields of outputs with the states of the layers."""


def begin(patch: Patch, frame: Frame, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """Open the record of a forward pass with a latent alignment.

    Returns the arguments of the forward without labels where alternatives will follow the attention, and None where
    nothing changes.
    """
    family, model = patch.config.settings, frame.owner
    if not isinstance(family, AlignmentFamily) or not is_root(model, patch):
        return None
    labels = inputs.get("labels")
    embed = None if patch.classifier else partial(embed_target, model)
    if patch.runtime.records is not None:
        frame.alignment = Alignment(labels, embed, only_record=True)
        patch.runtime.records.append(frame.alignment)
        return None
    if model.training:
        return begin_training(patch, frame, inputs, Alignment(labels, embed, given=inputs))
    one_sample = frame.sampling is not None
    trained = bool(steps.step_of(patch.root) > 0)
    wanted = patch.feeds_back and family.has_alternatives if one_sample else family.has_expectation(trained)
    if not patch.has_alternatives or not wanted:
        if one_sample and patch.latent == 1:
            frame.alignment = Alignment(in_weights=True)
        return None
    frame.alignment = Alignment(embed=embed, one_sample=one_sample, given=inputs)
    return without_labels(patch, model, inputs)


def begin_training(patch: Patch, frame: Frame, inputs: dict[str, Any], record: Alignment) -> dict[str, Any] | None:
    """Open the record of a forward pass in training mode."""
    family: Any = patch.config.settings
    model: Any = frame.owner
    if record.labels is None and family.needs_labels:
        raise ValueError(
            f"BamConfig.objective={family.objective!r} is trained from labels, and this forward has none. Pass "
            "labels=... to the model, and leave the label_smoothing_factor of a Trainer at 0, which takes them away."
        )
    frame.alignment = record
    if not patch.has_alternatives or not family.has_alternatives:
        return None
    if getattr(model.config, "scheduled_sampling", 0) > 0:
        raise ValueError(
            f"RecurrentConfig.scheduled_sampling={model.config.scheduled_sampling} feeds predictions back that depend "
            f"on an alignment, so that family={patch.config.family!r} cannot enumerate it. Set it to 0, or use "
            "family='gumbel' or 'dirichlet'."
        )
    return without_labels(patch, model, inputs)


def is_root(model: nn.Module, patch: Patch) -> bool:
    """Return whether a model is the patched one, or a copy of it that shares its tensors, and not a part of it."""
    return type(model) is type(patch.root) and model.config is patch.root.config


def embed_target(model: Any, labels: Tensor) -> Tensor:
    """Return the embeddings of labels, (B, T, E)."""
    found: Tensor = target_embeddings(model)(labels)
    return found


def without_labels(patch: Patch, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward without labels, with the decoder inputs that the model makes from them."""
    inputs = {**inputs, "return_dict": True}
    labels = inputs.pop("labels", None)
    if patch.classifier:
        check_classifier(model, inputs, labels)
    if labels is None or patch.classifier:
        return inputs
    if model.config.model_type in NO_CACHE:
        inputs["use_cache"] = False
    if inputs.get("decoder_input_ids") is None and inputs.get("decoder_inputs_embeds") is None:
        ids = inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
        if model.config.model_type in MASKS_TARGET and inputs.get("decoder_attention_mask") is None:
            inputs["decoder_attention_mask"] = (ids != model.config.pad_token_id).to(ids.dtype)
    return inputs


def check_classifier(model: Any, inputs: dict[str, Any], labels: Tensor | None) -> None:
    """Raise for arguments that a classifier with alternatives cannot take."""
    if inputs.get("output_hidden_states") or model.config.output_hidden_states:
        raise ValueError(
            "output_hidden_states=True is not possible: the last layer of a classifier with a latent alignment has a "
            "state for each of its alternatives. Leave it out, or use test_time='soft' in evaluation mode."
        )
    if labels is not None and (labels.is_floating_point() or labels.dim() != 1):
        raise ValueError(
            f"labels of type {labels.dtype} and shape {tuple(labels.shape)} are not one class per example, which a "
            "latent alignment of a classifier needs."
        )


def finish(patch: Patch, frame: Frame, output: Any) -> Any:
    """Return the output of a forward with a latent alignment as the caller expects it: loss, and logits (B, T, V).

    Within `hf_bam.sampling` it has the sample of the alignment.
    """
    record = frame.alignment
    if record is None:
        return output
    if record.sampled and not record.only_record:
        record.baseline = soft_log_likelihood(patch, frame, record)
    if record.chosen is not None:
        output = over_alternatives(patch, frame, record.chosen, output)
    if record.drawn and isinstance(output, ModelOutput):
        output = with_fields(type(output))(**{**output, "alignment": torch.cat(record.drawn, dim=1)})
    return output


def over_alternatives(patch: Patch, frame: Frame, choice: Choice, output: Any) -> Any:
    """Return the output of a forward with loss and logits over the alternatives of its alignment."""
    record: Any = frame.alignment
    given: dict[str, Any] = record.given
    labels: Tensor | None = given.get("labels")
    logits: Tensor = output.logits  # (K, B, T, V)
    if record.embed is None:
        alternatives = len(choice.log_weight) + choice.soft
        logits = logits.view(alternatives, -1, logits.shape[-1])  # (K, B, C)
        choice = replace(choice, log_weight=choice.log_weight[..., 0], log_p=choice.log_p[..., 0])
    changed: dict[str, Any] = {}
    if labels is not None:
        family: Any = patch.config.settings
        log_f = log_likelihood(logits, labels.to(logits.device))
        objective = family.log_likelihood if frame.owner.training else marginal
        changed["loss"] = -token_mean(objective(log_f, choice.log_weight), labels)
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


@torch.no_grad()
def soft_log_likelihood(patch: Patch, frame: Frame, record: Alignment) -> Tensor:
    """Return the log-likelihood of the target under soft attention, (B, T), by one more forward pass."""
    model: Any = frame.owner
    labels = record.labels
    assert labels is not None
    patch.runtime.frame = Frame(model, alignment=Alignment(only_record=True))
    try:
        output = type(model).forward(model, **{**record.given, "return_dict": True})
    finally:
        patch.runtime.frame = None
    return log_likelihood(output.logits, labels.to(output.logits.device))
