"""Attention in four stages: memory, scores, weights, output. A family samples the tensor of one of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout

from .call import AttentionCall


def attend(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Return the output (B, T, H, D_v) and the weights (B, H, T, S) of an attention call, by matrices."""
    key, value = call.sampled("memory", (call.key, call.value))  # (B, H, S, D), (B, H, S, D_v)

    scores = attention_scores(call.query, key, call.scale, call.softcap, call.mask.bias)  # (B, H, T, S)
    mask = call.mask.rows(slice(0, scores.shape[2]), scores.device)
    scores = call.sampled("scores", scores.masked_fill(~mask, torch.finfo(scores.dtype).min))

    # Filled once more for rows in which no key is allowed: their weights are zero.
    weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    weights = call.sampled("weights", weights).to(value.dtype)
    weights = dropout(weights, p=call.dropout, training=call.dropout > 0)

    output = call.sampled("output", weights @ value)  # (B, H, T, D_v)
    return output.transpose(1, 2).contiguous(), weights


def attention_scores(
    query: Tensor, key: Tensor, scale: float, softcap: float | None = None, bias: Tensor | None = None
) -> Tensor:
    """Return ``phi = scale * q . k``, capped and with the bias that the model adds, (B, H, T, S) in float32 or better.

    Args:
        softcap: bound of the scores, by a tanh.
        bias: broadcastable to (B, H, T, S).
    """
    scores = (query @ key.transpose(-1, -2)) * scale
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return scores if bias is None else scores + bias
