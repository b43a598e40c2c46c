"""Stochastic attention by query blocks in torch alone: for machines without a compiler, GPUs, other posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...objective import kl_divergence
from ...priors.base import masked_log_softmax
from ..forward import attention_scores
from ..noise import dropout_factor, log_noise
from .spec import Parts, Spec, row_blocks


def attend_by_blocks(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> Parts:
    """Compute what [`attend_natively`][hf_bam.attention.backends.operator.attend_natively] does, with the same noise.

    A block is computed again in the backward pass. Scores may be capped and have a learned bias; the weights are
    returned if they are asked for.
    """
    batch, heads, queries, count = spec.mask.shape
    keys = spec.seed.row_keys(batch, heads, queries, query.device)
    blocks = row_blocks(queries, batch * heads * count)
    parts = []
    for rows, bias in zip(blocks, _rows_of(spec.mask.bias, blocks), strict=True):
        arguments = (query[:, :, rows], key, value, logits, keys[:, :, rows], bias, rows.start, spec)
        if torch.is_grad_enabled():
            parts.append(checkpoint(_block, *arguments, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(_block(*arguments))
    outputs, kls, sums, weights = zip(*parts, strict=True)
    received = None if spec.query_mask is None else sum(sums[1:], sums[0])
    return Parts(_joined(outputs), _joined(kls), received, _joined(weights))


def _rows_of(bias: Tensor | None, blocks: list[slice]) -> Sequence[Tensor | None]:
    """Return the bias of each block: its gradient is put together once, and not in a matrix for each of them."""
    if bias is None or bias.shape[2] == 1:
        return [bias] * len(blocks)
    return torch.split(bias, [rows.stop - rows.start for rows in blocks], dim=2)


def _joined(parts: tuple[Any, ...]) -> Any:
    return None if parts[0] is None else parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _block(
    query: Tensor,  # (B, H, R, D)
    key: Tensor,
    value: Tensor,
    logits: Tensor | None,  # (B, H, S)
    keys: Tensor,  # (B, H, R, 2)
    bias: Tensor | None,  # (B or 1, H or 1, R or 1, S)
    first: int,
    spec: Spec,
) -> Parts:
    rows, count = slice(first, first + query.shape[2]), key.shape[2]
    mask = spec.mask.rows(rows, query.device)
    scores = attention_scores(query, key, spec.scale, spec.softcap, bias)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    log_p = None if logits is None and spec.query_mask is None else scores.log_softmax(dim=-1)

    kl = received = None
    if logits is not None and log_p is not None:
        kl = _row_kl(log_p, logits, mask, spec)
    if spec.query_mask is not None and log_p is not None:
        weights = log_p.exp().masked_fill(~mask, 0.0)
        received = torch.einsum("bhts,bt->bhs", weights, spec.query_mask[:, rows].to(weights))
    noise = log_noise(spec.posterior, keys, count) if spec.noise is None else spec.noise
    weights = (scores + noise.to(scores.dtype)).softmax(dim=-1).masked_fill(~mask, 0.0)
    if spec.dropout > 0:
        weights = weights * dropout_factor(spec.dropout, keys, count)
    weights = weights.to(value.dtype)
    return Parts(weights @ value, kl, received, weights if spec.wants_weights else None)


def _row_kl(log_p: Tensor, logits: Tensor, mask: Tensor, spec: Spec) -> Tensor:
    """Return the KL of each row over the keys of its mask, (B, H, R), with the prior normalised over them."""
    log_psi = masked_log_softmax(logits.to(log_p.dtype).unsqueeze(2), mask)
    log_p, log_psi = (x.masked_fill(~mask, 0.0) for x in (log_p, log_psi))
    kl = kl_divergence(spec.posterior, spec.prior, log_p, log_psi)
    return kl.masked_fill(~mask, 0.0).sum(dim=-1)
