"""The attention function that is given to transformers under the name `"bam"`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .layer import BamLayer

NAME = "bam"
# Additive masks hide a key by the lowest number of their dtype, by -inf, or by -10000, which bfloat16 rounds up.
HIDDEN_BELOW = -9000.0


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
    if layer is None and module.training:
        raise RuntimeError(
            f"{type(module).__name__} has attention implementation {NAME!r} but is not patched, so it would train "
            "with plain attention. Call hf_bam.patch(model)."
        )
    use = 0 if layer is None else layer.begin_use(query.shape[2], key.shape[2])
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

    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) if groups > 1 else x for x in (key, value))
    if layer is not None and stochastic and not _needs_matrix(layer, attention_mask, kwargs):
        causal = attention_mask is None and query.shape[2] > 1 and _is_causal(module, is_causal)
        visible, bias = _split(attention_mask, key.shape[2])
        settings = {"scale": _scale(query, scaling), "dropout": dropout if module.training else 0.0}
        return layer.attend(query, key, value, visible=visible, bias=bias, causal=causal, **settings), None
    seen = visible_keys(module, query, key, attention_mask, is_causal)
    scores = attention_scores(query, key, attention_mask, scaling, **kwargs)
    scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)

    noisy = scores
    if layer is not None and stochastic:
        if layer.training:
            layer.add_kl(scores.log_softmax(dim=-1), key, seen)
        noisy = scores + layer.log_noise(scores, use)
    # Filled once more for rows in which no key is visible: their weights are zero.
    weights = noisy.softmax(dim=-1).masked_fill(~seen, 0.0).to(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = weights @ value  # (B, H, T, D_v)
    return output.transpose(1, 2).contiguous(), weights


def attention_scores(
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None,
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
    bias = _split(attention_mask, key.shape[-2])[1]
    return scores if bias is None else scores + bias


def visible_keys(
    module: nn.Module, query: Tensor, key: Tensor, attention_mask: Tensor | None, is_causal: bool | None
) -> Tensor:
    """Which keys each query may attend to: from the mask, boolean or additive, or from the causal flag without one.

    Broadcastable to (B, H, T, S).
    """
    queries, keys = query.shape[2], key.shape[2]
    visible, _ = _split(attention_mask, keys)
    if visible is not None:
        return visible
    causal = _is_causal(module, is_causal)
    # Without a mask, causal means that query i is token i: the keys of an empty static cache lie behind all queries.
    rows = queries if causal and queries > 1 else 1
    everything = torch.ones(1, 1, rows, keys, dtype=torch.bool, device=query.device)
    return everything.tril() if rows > 1 else everything


def _split(attention_mask: Tensor | None, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Which keys a mask shows and what it adds to the scores; a static cache may have made it too long."""
    if attention_mask is None:
        return None, None
    mask = attention_mask[..., :keys]
    return (mask, None) if mask.dtype == torch.bool else (mask > HIDDEN_BELOW, mask)


def _scale(query: Tensor, scaling: float | None) -> float:
    return query.shape[-1] ** -0.5 if scaling is None else scaling


def _is_causal(module: nn.Module, is_causal: bool | None) -> bool:
    return bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)


def _needs_matrix(layer: BamLayer, attention_mask: Tensor | None, kwargs: dict[str, Any]) -> bool:
    """Whether a draw has to be built as a matrix: it is asked for, held, or its scores are more than products.

    A compiler gets the matrix too: it fuses what it can see.
    """
    if torch.compiler.is_compiling():
        return True
    draws = None if layer.training else layer.runtime.draws
    held = draws is not None and draws.hold
    learned = attention_mask is not None and attention_mask.requires_grad
    return held or learned or kwargs.get("position_bias") is not None or _needs_weights(layer, kwargs)


def _needs_weights(layer: BamLayer | None, kwargs: dict[str, Any]) -> bool:
    frame = None if layer is None else layer.runtime.frame
    asked = bool(kwargs.get("output_attentions")) or (frame is not None and frame.wants_weights)
    return asked or kwargs.get("softcap") is not None  # the fused kernel knows no softcap


def register() -> None:
    """Makes `attn_implementation="bam"` known to transformers.

    The mask function belongs to it: for a name without one transformers passes no mask at all, and padding would be
    attended to.
    """
    AttentionInterface.register(NAME, bam_attention_forward)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


register()
