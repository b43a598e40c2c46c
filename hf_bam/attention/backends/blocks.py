"""Stochastic attention by query blocks in torch alone: for machines without a compiler, GPUs, other posteriors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...objective import kl_divergence
from ...priors.base import masked_log_softmax
from ..noise import dropout_factor, log_noise
from .spec import Spec, row_blocks

Parts = tuple[Tensor, Tensor | None, Tensor | None]


def attend_by_blocks(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> Parts:
    """Compute what [`attend_natively`][hf_bam.attention.backends.operator.attend_natively] does, with the same noise.

    A block is computed again in the backward pass.
    """
    batch, heads, queries, count = spec.mask.shape
    keys = spec.seed.row_keys(batch, heads, queries, query.device)
    outputs, kls, received = [], [], None
    for rows in row_blocks(queries, batch * heads * count):
        output, kl, part = checkpoint(
            _block,
            query[:, :, rows],
            key,
            value,
            logits,
            keys[:, :, rows],
            rows.start,
            spec,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        outputs.append(output)
        kls.append(kl)
        received = part if received is None else received + part
    return torch.cat(outputs, dim=2), None if logits is None else torch.cat(kls, dim=2), received


def _block(
    query: Tensor,  # (B, H, R, D)
    key: Tensor,
    value: Tensor,
    logits: Tensor | None,  # (B, H, S)
    keys: Tensor,  # (B, H, R, 2)
    first: int,
    spec: Spec,
) -> Parts:
    rows, count = slice(first, first + query.shape[2]), key.shape[2]
    mask = spec.mask.rows(rows, query.device)
    scores = (query @ key.transpose(-1, -2)) * spec.scale
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if (bias := spec.mask.bias) is not None:
        scores = scores + (bias if bias.shape[2] == 1 else bias[:, :, rows])
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
    return weights.to(value.dtype) @ value, kl, received


def _row_kl(log_p: Tensor, logits: Tensor, mask: Tensor, spec: Spec) -> Tensor:
    """Return the KL of each row over the keys of its mask, (B, H, R), with the prior normalised over them."""
    log_psi = masked_log_softmax(logits.to(log_p.dtype).unsqueeze(2), mask)
    log_p, log_psi = (x.masked_fill(~mask, 0.0) for x in (log_p, log_psi))
    kl = kl_divergence(spec.posterior, spec.prior, log_p, log_psi)
    return kl.masked_fill(~mask, 0.0).sum(dim=-1)
