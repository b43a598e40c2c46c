"""Hooks around the forward of a patched model: they open its frame and add its loss terms to the output."""

from __future__ import annotations

import functools
import inspect
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..attention.frame import Frame, Positions
from ..attention.runtime import Replay, Runtime
from ..objective import KL, LATENT_KL, annealed, reduce_terms
from . import alignment, backward, steps
from .outputs import add_kl, own_loss, prepare_outputs
from .state import ATTRIBUTE, Patch

DIRECT = "_hf_bam"
"""Marks a `forward` of ours."""
CHECKPOINTING = "gradient_checkpointing"
"""Attribute by which transformers turns gradient checkpointing of a module on."""


def install(model: nn.Module) -> list[RemovableHandle]:
    names = tuple(inspect.signature(type(model).forward).parameters)[1:]
    prepare_outputs(type(model).forward)
    return [
        model.register_forward_pre_hook(partial(open_frame, argument_names=names), with_kwargs=True),
        model.register_forward_hook(close_frame, with_kwargs=True, always_call=True),
    ]


def catch_direct_calls(model: nn.Module) -> None:
    """Make `model.forward(...)`, which skips hooks, equal to `model(...)`; sentence-transformers calls it."""
    if "forward" in vars(model):
        return  # of another library; `model(...)` calls it as well

    @functools.wraps(type(model).forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        patch: Patch | None = vars(self).get(ATTRIBUTE)  # None: unpatched, and a caller has kept this method
        if patch is None or patch.runtime.frame is not None:
            return type(self).forward(self, *args, **kwargs)
        return self(*args, **kwargs)

    setattr(forward, DIRECT, True)
    model.forward = MethodType(forward, model)


def release_direct_calls(model: nn.Module) -> None:
    """Remove our `forward`; one that another library has put there since stays."""
    if hasattr(vars(model).get("forward"), DIRECT):
        del model.forward


def open_frame(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, argument_names: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Open the frame of a forward, unless a model around this one has opened one.

    Returns other arguments for the forward where a latent alignment needs them, and None otherwise.
    """
    patch: Patch = vars(model)[ATTRIBUTE]
    current = patch.runtime.frame
    # A frame of its own that is still open was left behind by an exception in a compiled forward.
    if current is not None and current.owner is not model:
        return None
    config = getattr(model, "config", None)  # graph models have none
    wants_weights = kwargs.get("output_attentions", getattr(config, "output_attentions", False))
    frame = Frame(model, wants_weights=bool(wants_weights), sampling=patch.runtime.sampling)
    inputs = {**dict(zip(argument_names, args, strict=False)), **kwargs}
    encoder_decoder = "decoder_attention_mask" in argument_names
    if frame.sampling is not None:
        frame.seed = frame.sampling.begin()
        frame.positions = positions(inputs, encoder_decoder)
    if model.training:
        ends = tuple(getattr(config, name, None) for name in ("pad_token_id", "eos_token_id"))
        frame.encoder_mask, frame.decoder_mask = padding_masks(inputs, encoder_decoder, ends)
        labels = inputs.get("labels")
        frame.labels = labels if isinstance(labels, Tensor) else None
        frame.step = steps.step_of(patch.root)
        prepare_checkpointing(patch)
        check_prior_trainable(patch)
        steps.watch(patch.root)
        patch.runtime.kl_loss = None
    changed = alignment.begin(patch, frame, inputs)
    patch.runtime.frame = frame
    return None if changed is None else ((), changed)


def close_frame(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """Close the frame and add its loss terms to the output; also runs, with `output=None`, when the forward raised."""
    patch: Patch = vars(model)[ATTRIBUTE]
    frame = patch.runtime.frame
    if frame is None or frame.owner is not model:
        return None
    patch.runtime.frame = None
    if output is None:
        return None
    output = alignment.finish(patch, frame, output)
    if not model.training:
        if patch.runtime.measured is not None:
            patch.runtime.measured.extend(frame.collected())
        return output
    if not frame.sampled:
        check_sampled(model, patch)
        return None
    config = patch.config
    weight = annealed(config.kl_weight, config.annealing, config.annealing_rate, steps.step_of(patch.root))
    terms = reduce_terms(frame.collected(), config.kl_reduction, frame.labels, output)
    kls = [terms[name] for name in (KL, LATENT_KL) if name in terms] or [torch.zeros_like(weight)]
    kl = terms[KL] = sum((value.to(kls[0].device) for value in kls[1:]), kls[0])
    kl_loss = sum((value for name, value in terms.items() if name not in (KL, LATENT_KL)), weight.to(kl.device) * kl)
    patch.runtime.kl_loss = kl_loss
    output = add_kl(output, kl, kl_loss)
    task_loss = getattr(output, "task_loss", None)
    terms |= {"kl_loss": kl_loss, **({} if task_loss is None else {"task_loss": task_loss})}
    terms = {name: term.detach() for name, term in (terms | frame.logged).items()}
    if torch.compiler.is_compiling():
        patch.runtime.meter.add(**terms)
    elif kl_loss.requires_grad:
        forward = backward.Forward(terms, patch.runtime.meter, patch.tally)
        backward.record(forward, kl, kl_loss, own_loss(output), (args, kwargs), output)
    return output


def check_sampled(model: nn.Module, patch: Patch) -> None:
    """Raise for a patched model that trains without any stochastic attention."""
    if model is patch.root:
        raise RuntimeError(
            f"{type(model).__name__} is patched and in training mode, but none of its attention was sampled. Either "
            "its attention implementation was changed after patching (patch it again), or the stochastic layers are "
            "in evaluation mode (call model.train()), or no stochastic layer ran. hf_bam.unpatch(model) gives plain "
            "attention."
        )


def padding_masks(
    inputs: dict[str, Any], encoder_decoder: bool, ends: tuple[Any, ...] = ()
) -> tuple[Tensor | None, Tensor | None]:
    """Return the tokens of the encoder and of the decoder that are not padding, (B, L) each; None: not known.

    Decoder inputs are often padded without a mask. Then the labels show the padding, because a position whose label is
    ignored is a query without effect; without labels the tokens that end a text do, `ends`, because nothing follows
    them. A model without decoder inputs takes those of the encoder, shifted by one. For a model of one part both are
    the same tokens.
    """
    mask = inputs.get("attention_mask")
    encoder = mask if isinstance(mask, Tensor) and mask.dim() in (2, 3) else None
    if not encoder_decoder:
        return encoder, encoder
    decoder, labels, ids = (inputs.get(name) for name in ("decoder_attention_mask", "labels", "decoder_input_ids"))
    if decoder is None and isinstance(labels, Tensor) and labels.dim() == 2:
        decoder = labels != -100
    elif decoder is None and isinstance(ids, Tensor) and ids.dim() == 2:
        decoder = torch.ones_like(ids, dtype=torch.bool)
        for token in filter(lambda token: isinstance(token, int), ends):
            decoder[:, 1:] &= ids[:, 1:] != token  # the first token starts a text, also where it is one of these
    elif decoder is None and encoder is not None and inputs.get("decoder_inputs_embeds") is None:
        decoder = torch.cat([torch.ones_like(encoder[..., :1]), encoder[..., :-1]], dim=-1)
    return encoder, decoder if isinstance(decoder, Tensor) and decoder.dim() == 2 else None


def positions(inputs: dict[str, Any], encoder_decoder: bool) -> Positions:
    """Return the positions of the tokens of a forward in their texts."""
    cache: Any = inputs.get("past_key_values")
    past = int(cache.get_seq_length()) if hasattr(cache, "get_seq_length") else None
    encoder = padding_before(inputs.get("attention_mask"))
    if encoder_decoder:
        return Positions(encoder, padding_before(inputs.get("decoder_attention_mask")), past, True)
    positions = inputs.get("position_ids")
    if encoder is None and isinstance(positions, Tensor) and positions.dim() == 2:
        # `generate` with a static cache makes the mask of the layers itself; the last token is never padding.
        encoder = (past or 0) + positions.shape[1] - 1 - positions[:, -1]
    return Positions(encoder, encoder, past)


def padding_before(mask: Any) -> Tensor | None:
    """Return the number of padding tokens before each text, (B,)."""
    if not isinstance(mask, Tensor) or mask.dim() != 2:
        return None
    return (mask.cumsum(dim=-1) == 0).sum(dim=-1)


def prepare_checkpointing(patch: Patch) -> None:
    """Make gradient checkpointing run a layer again within the frame of its forward; raise for the reentrant kind."""
    module: Any
    for module in patch.checkpointed:
        if not getattr(module, CHECKPOINTING):
            continue
        function = getattr(module, "_gradient_checkpointing_func", None)
        keywords = getattr(function, "keywords", {})
        if keywords.get("use_reentrant"):
            raise ValueError(
                "Gradient checkpointing with use_reentrant=True loses the gradient of the KL. Use "
                "model.gradient_checkpointing_enable({'use_reentrant': False})."
            )
        # Contexts of other libraries stay; noise="entry" does not need ours.
        theirs = keywords.get("context_fn")
        if isinstance(function, partial) and (theirs is None or getattr(theirs, "func", None) is checkpoint_contexts):
            contexts = partial(checkpoint_contexts, patch.runtime)
            module._gradient_checkpointing_func = partial(function, context_fn=contexts)


def check_prior_trainable(patch: Patch) -> None:
    """Raise if PEFT has frozen the prior or the inference network, as it does with modules that it does not know."""
    # The first parameter that is trained ends the search.
    if any(p.requires_grad for layer in patch.layers for p in layer.parameters()):
        return
    has_networks = any(True for layer in patch.layers for _ in layer.parameters())
    if has_networks and any(map(is_adapter, patch.root.modules())):
        name = next(name for layer in patch.layers for name, _ in layer.named_children())
        raise ValueError(
            f"PEFT has frozen the {name} network of the Bayesian attention. Name it among the modules that the "
            f"adapter trains and saves, LoraConfig(modules_to_save=[{name!r}, ...]), or patch the model after "
            "get_peft_model()."
        )


def is_adapter(module: nn.Module) -> bool:
    return hasattr(module, "base_layer") and hasattr(module, "active_adapters")


def checkpoint_contexts(runtime: Runtime) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a checkpointed layer, for its forward and for its recomputation."""
    frame = runtime.frame
    return nullcontext(), nullcontext() if frame is None else Replay(runtime, frame)
