"""Attention function that transformers calls under the name `"bam"`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .backends import backend_for, check_shapes
from .call import AttentionCall
from .layer import BamLayer
from .mask import AttentionMask

NAME = "bam"
WITH_MASK = "bam_with_mask"
"""The same attention for models that do not support torch's kernel: with the additive mask that is their own."""
NAMES = (NAME, WITH_MASK)
SPARSE = ("indices", "block_indices")
"""Keywords by which some models choose the keys of a query beside the mask."""


def bam_attention_forward(
    module: nn.Module,
    query: Tensor,  # (B, H, T, D)
    key: Tensor,  # (B, H_kv, S, D)
    value: Tensor,  # (B, H_kv, S, D_v)
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention with sampled weights, or the soft attention itself in mean mode.

    Mean mode is passed on to torch's fused kernel. A module without a `bam` layer is always in mean mode.
    """
    layer: BamLayer | None = getattr(module, "bam", None)
    check_call(module, layer, kwargs)
    if layer is not None and layer.forced is not None:
        return layer.forced, None
    use = 0 if layer is None else layer.begin_use()
    if attention_mask is not None and not attention_mask.dtype.is_floating_point:
        attention_mask = attention_mask.bool()  # a caller's mask of integers marks the keys to attend to
    stochastic = layer is not None and layer.is_stochastic(use)
    softcap, wants_weights = kwargs.get("softcap"), _wants_weights(layer, kwargs)
    if not stochastic and not wants_weights and softcap is None:  # torch's kernel has no softcap
        options: dict[str, Any] = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal}
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **options, **kwargs)

    own_heads = key.shape[1]
    key, value = (for_every_head(x, query.shape[1]) for x in (key, value))
    check_shapes(query, key, value)
    call = AttentionCall(
        layer if stochastic else None,
        use,
        query,
        key,
        value,
        AttentionMask.read(
            attention_mask,
            (*query.shape[:3], key.shape[2]),
            _is_causal(module, is_causal),
            kwargs.get("position_bias"),
        ),
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        dropout=dropout if module.training else 0.0,
        softcap=softcap,
        wants_weights=wants_weights,
        groups=query.shape[1] // max(own_heads, 1),
        first_query=kwargs.get("first_query"),
    )
    output, weights = backend_for(call).run(call)
    if layer is not None and layer.runtime.observed is not None:
        layer.runtime.observed.append((layer, call, weights))
    return output, weights


def check_call(module: nn.Module, layer: BamLayer | None, kwargs: dict[str, Any]) -> None:
    """Raise for a module that would train with plain attention, and for one that chooses keys beside the mask."""
    if layer is None and module.training:
        raise RuntimeError(
            f"{type(module).__name__} has attention implementation {NAME!r} but is not patched, so it would train "
            "with plain attention. Call hf_bam.patch(model)."
        )
    for name in SPARSE:
        if kwargs.get(name) is not None:
            raise NotImplementedError(
                f"{type(module).__name__} chooses the keys of its queries by {name}=..., which Bayesian attention "
                "does not support. Call hf_bam.unpatch(model)."
            )


def for_every_head(x: Tensor, heads: int) -> Tensor:
    """Return keys or values (B, H_kv, S, D) as (B, H, S, D): groups of heads share them."""
    own = x.shape[1]
    if own == heads:
        return x
    if own == 0 or heads % own:
        raise ValueError(
            f"{heads} heads cannot share {own} heads of keys and values: num_attention_heads has to be a multiple of "
            "num_key_value_heads in the model's config."
        )
    return x.repeat_interleave(heads // own, dim=1)


def _is_causal(module: nn.Module, is_causal: bool | None) -> bool:
    return bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)


def _wants_weights(layer: BamLayer | None, kwargs: dict[str, Any]) -> bool:
    if layer is None:
        return bool(kwargs.get("output_attentions"))
    frame = layer.runtime.frame
    asked = bool(kwargs.get("output_attentions")) or (frame is not None and frame.wants_weights)
    return asked or layer.runtime.observed is not None


def register() -> None:
    """Register `attn_implementation="bam"` with transformers.

    The mask function belongs to it: for a name without one transformers passes no mask at all, and padding would be
    attended to. A model that supports torch's kernel does without a causal mask, because its modules say that they
    are causal; others keep their own mask.
    """
    for name in NAMES:
        AttentionInterface.register(name, bam_attention_forward)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    AttentionMaskInterface.register(WITH_MASK, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
