"""The attention function that is given to transformers under the name `"bam"`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .backends import check_shapes
from .layer import BamLayer
from .mask import AttentionMask

NAME = "bam"
WITH_MASK = "bam_with_mask"
"""The same attention for models that torch's kernel is not made for: with the additive mask that is their own."""
NAMES = (NAME, WITH_MASK)
SPARSE = ("indices", "block_indices")
"""Keywords by which some models choose the keys of a query outside of the mask."""


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
    """Attention with weights drawn around the soft attention, or the soft attention itself in mean mode.

    Mean mode is handed to the fused kernel of torch, and draws to our own. A module without a `bam` layer is always in
    mean mode.
    """
    layer: BamLayer | None = getattr(module, "bam", None)
    check_call(module, layer, kwargs)
    use = 0 if layer is None else layer.begin_use()
    if attention_mask is not None and not attention_mask.dtype.is_floating_point:
        attention_mask = attention_mask.bool()  # integers of a mask that the caller made say which keys to attend to
    stochastic = layer is not None and layer.is_stochastic(use)
    if not stochastic and not _needs_weights(layer, kwargs):
        return ALL_ATTENTION_FUNCTIONS["sdpa"](
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            **kwargs,
        )

    key, value = (for_every_head(x, query.shape[1]) for x in (key, value))
    check_shapes(query, key, value)
    mask = AttentionMask.read(attention_mask, (*query.shape[:3], key.shape[2]), _is_causal(module, is_causal))
    if layer is not None and stochastic and not _needs_matrix(layer, mask, kwargs):
        settings = {"scale": _scale(query, scaling), "dropout": dropout if module.training else 0.0}
        return layer.attend(query, key, value, mask, use=use, **settings), None
    visible = mask.block(slice(0, query.shape[2]), query.device)  # broadcastable to (B, H, T, S)
    scores = attention_scores(query, key, mask.bias, scaling, **kwargs)
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)  # (B, H, T, S)

    noisy = scores
    if layer is not None and stochastic:
        if layer.training:
            layer.add_kl(scores.log_softmax(dim=-1), key, mask)
        noisy = scores + layer.log_noise(query, key, use).to(scores.dtype)
    # Filled once more for rows in which no key is visible: their weights are zero.
    weights = noisy.softmax(dim=-1).masked_fill(~visible, 0.0).to(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = weights @ value  # (B, H, T, D_v)
    return output.transpose(1, 2).contiguous(), weights


def check_call(module: nn.Module, layer: BamLayer | None, kwargs: dict[str, Any]) -> None:
    """Raises for a module that would train with plain attention, and for one that chooses keys beside the mask."""
    if layer is None and module.training:
        raise RuntimeError(
            f"{type(module).__name__} has attention implementation {NAME!r} but is not patched, so it would train "
            "with plain attention. Call hf_bam.patch(model)."
        )
    for name in SPARSE:
        if kwargs.get(name) is not None:
            raise NotImplementedError(
                f"{type(module).__name__} chooses the keys of its queries by {name}=..., which Bayesian attention "
                "does not know. Call hf_bam.unpatch(model)."
            )


def for_every_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values (B, H_kv, S, D) as (B, H, S, D): groups of heads share them."""
    own = x.shape[1]
    if own == heads:
        return x
    if own == 0 or heads % own:
        raise ValueError(
            f"{heads} heads cannot share {own} heads of keys and values: num_attention_heads has to be a multiple of "
            "num_key_value_heads in the model's config."
        )
    return x.repeat_interleave(heads // own, dim=1)


def attention_scores(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    scaling: float | None,
    *,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **_: Any,
) -> Tensor:
    """``phi = scale * q . k`` plus whatever the model adds to it, (B, H, T, S) in float32 or better."""
    scores = (query @ key.transpose(-1, -2)) * _scale(query, scaling)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias[..., : key.shape[-2]]
    return scores if bias is None else scores + bias


def _scale(query: Tensor, scaling: float | None) -> float:
    return query.shape[-1] ** -0.5 if scaling is None else scaling


def _is_causal(module: nn.Module, is_causal: bool | None) -> bool:
    return bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)


def _needs_matrix(layer: BamLayer, mask: AttentionMask, kwargs: dict[str, Any]) -> bool:
    """Whether a draw has to be built as a matrix: it is asked for, or its scores are more than products.

    A compiler gets the matrix too: it fuses what it can see.
    """
    learned = mask.bias is not None and mask.bias.requires_grad
    return (
        torch.compiler.is_compiling()
        or learned
        or kwargs.get("position_bias") is not None
        or _needs_weights(layer, kwargs)
    )


def _needs_weights(layer: BamLayer | None, kwargs: dict[str, Any]) -> bool:
    frame = None if layer is None else layer.runtime.frame
    asked = bool(kwargs.get("output_attentions")) or (frame is not None and frame.wants_weights)
    return asked or kwargs.get("softcap") is not None  # the fused kernel knows no softcap


def register() -> None:
    """Makes `attn_implementation="bam"` known to transformers.

    The mask function belongs to it: for a name without one transformers passes no mask at all, and padding would be
    attended to. A model that supports torch's kernel does without a causal mask, because its modules say that they
    are causal; others keep the mask that they know.
    """
    for name in NAMES:
        AttentionInterface.register(name, bam_attention_forward)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    AttentionMaskInterface.register(WITH_MASK, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
