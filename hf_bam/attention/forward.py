"""Attention in four stages: memory, scores, weights, output. A family samples the tensor of one of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout

from .call import AttentionCall


def attend(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Return the output (B, T, H, D_v) and the weights (B, H, T, S) of an attention call, by matrices."""
    key, value = call.sampled("memory", (call.key, call.value))  # (B, H, S, D), (B, H, S, D_v)

    scores = attention_scores(call, key)  # (B, H, T, S)
    mask = call.mask.rows(slice(0, scores.shape[2]), scores.device)
    scores = call.sampled("scores", scores.masked_fill(~mask, torch.finfo(scores.dtype).min))

    # Filled once more for rows in which no key is allowed: their weights are zero.
    weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    weights = call.sampled("weights", weights).to(value.dtype)
    weights = dropout(weights, p=call.dropout, training=call.dropout > 0)

    output = call.sampled("output", weights @ value)  # (B, H, T, D_v)
    return output.transpose(1, 2).contiguous(), weights


def attention_scores(call: AttentionCall, key: Tensor) -> Tensor:
    """Return ``phi = scale * q . k`` plus whatever the model adds to it, (B, H, T, S) in float32 or better."""
    scores = (call.query @ key.transpose(-1, -2)) * call.scale
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    if call.position_bias is not None:
        scores = scores + call.position_bias[..., : key.shape[-2]]
    return scores if call.mask.bias is None else scores + call.mask.bias
