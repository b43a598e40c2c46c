"""Stochastic attention by FlexAttention: one fused kernel for the sample, narrow ones for its KL. For GPUs.

A sum over the keys of a row is the exponential of a log-sum-exp, which FlexAttention returns and differentiates. So
the KL takes calls whose values, or whose queries and keys, are narrow, and no matrix.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from torch.nn.functional import pad

from ...families.weibull import EULER_GAMMA
from ...priors import Gamma, LognormalPrior
from . import flex_scores
from .flex_mask import block_mask, transposed_mask
from .flex_scores import ScoreMod, number
from .spec import Parts, Spec

WIDTH = 16
"""Least number of features that the kernels take."""


def attend_by_flex(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> Parts:
    """Compute what `attend_natively` does, with the same noise, by FlexAttention."""
    mask, groups = block_mask(spec.mask, query.device), spec.groups
    noisy = flex_scores.noisy_scores(spec, query)
    output, _ = run(query, key[:, ::groups], value[:, ::groups], mask, noisy, spec.scale)
    if logits is None and spec.query_mask is None:
        return Parts(output)
    # The log-sum-exp of the scores without noise: values are narrow.
    _, lse = run(query, key[:, ::groups], zeros(key[:, ::groups]), mask, None, spec.scale)
    counts = row_counts(spec, query.device)
    lse = torch.where(counts > 0, lse, 0.0)  # (B, H, T)
    kl = None if logits is None else row_kl(query.float(), key.float(), logits, lse, counts, mask, spec)
    received = None if spec.query_mask is None else received_attention(query.float(), key.float(), lse, spec)
    return Parts(output, kl, received)


def run(
    query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scores: ScoreMod | None = None, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp, (B, H, T), of FlexAttention; -inf for a row without keys."""
    function = compiled() if query.device.type == "cuda" else flex_attention
    options: dict[str, Any] = {"score_mod": scores, "block_mask": mask, "scale": scale}
    options |= {"enable_gqa": query.shape[1] != key.shape[1], "return_aux": AuxRequest(lse=True)}
    output, found = function(query, key.to(query.dtype), value.to(query.dtype), **options)
    return output.to(value.dtype), found.lse


@functools.cache
def compiled() -> Any:
    """Return the fused kernel; without a compiler FlexAttention builds the matrix."""
    return torch.compile(flex_attention)


def row_kl(
    query: Tensor, key: Tensor, logits: Tensor, lse: Tensor, counts: Tensor, mask: BlockMask, spec: Spec
) -> Tensor:
    """Return the KL of each row over the keys of its mask, (B, H, T)."""
    if isinstance(spec.prior, LognormalPrior):
        return lognormal_kl(query, key, logits, lse, counts, mask, spec)
    return gamma_kl(query, key, logits, lse, counts, mask, spec)


def prior_mean(logits: Tensor, value: Tensor, counts: Tensor, mask: BlockMask) -> tuple[Tensor, Tensor]:
    """Return the mean of values under the prior attention of each row, and the log of its normaliser, (B, H, T)."""
    ones = torch.ones(*counts.shape, 1, device=logits.device)
    mean, log_z = run(narrow(ones), narrow(logits[..., None]), value, mask)
    return mean, torch.where(counts > 0, log_z, 0.0)


def gamma_kl(
    query: Tensor, key: Tensor, logits: Tensor, lse: Tensor, counts: Tensor, mask: BlockMask, spec: Spec
) -> Tensor:
    """Return the KL of Weibull rows to their Gamma priors.

    ``sum_j alpha_ij (g/k + lgamma(1+1/k) - log beta + lse_i - phi_ij) + beta + sum_j lgamma(alpha_ij)
    + n_i (log k - g - 1)``, with ``sum_j alpha_ij phi_ij`` from the mean key under the prior attention.
    """
    posterior: Any = spec.posterior
    prior: Gamma = spec.prior
    logits = torch.zeros_like(logits) if prior.alpha is not None else logits
    mean, log_z = prior_mean(logits, key, counts, mask)
    if prior.alpha is not None:
        total, log_gamma = prior.alpha * counts, math.lgamma(prior.alpha) * counts
    else:
        scale = prior.beta if prior.prior_shape == "beta*psi" else 1.0
        total = torch.full_like(lse, scale)
        ones = torch.ones_like(logits)
        rows, columns = torch.stack([-log_z, torch.ones_like(log_z)], -1), torch.stack([ones, logits], -1)
        term = flex_scores.log_gamma_term(number(math.log(scale), query))
        _, found = run(narrow(rows), narrow(columns), zeros(columns), mask, term)
        log_gamma = torch.where(counts > 0, found, 0.0).exp() - counts
    constant = EULER_GAMMA / posterior.k + math.lgamma(1 + 1 / posterior.k) - math.log(prior.beta)
    scores = spec.scale * (query * mean).sum(dim=-1)
    kl = total * (constant + lse - scores) + prior.beta + log_gamma
    return torch.where(counts > 0, kl + counts * (math.log(posterior.k) - EULER_GAMMA - 1), 0.0)


def lognormal_kl(
    query: Tensor, key: Tensor, logits: Tensor, lse: Tensor, counts: Tensor, mask: BlockMask, spec: Spec
) -> Tensor:
    """Return the KL of Lognormal rows: ``log p - log psi`` is one product of longer queries and keys."""
    sigma, sigma_prior = spec.posterior.sigma, spec.prior.sigma_prior  # type: ignore[attr-defined]
    _, log_z = prior_mean(logits, zeros(key), counts, mask)
    shift = log_z - lse + (sigma_prior**2 - sigma**2) / 2
    rows = torch.cat([query * spec.scale, torch.stack([shift, torch.ones_like(shift)], -1)], -1)
    columns = torch.cat([key, torch.stack([torch.ones_like(logits), -logits], -1)], -1)
    constant = math.log(sigma_prior / sigma) - 0.5 + sigma**2 / (2 * sigma_prior**2)
    term = flex_scores.normal_kl_term(number(constant, query), number(1 / (2 * sigma_prior**2), query))
    _, found = run(narrow(rows), narrow(columns), zeros(columns), mask, term)
    return torch.where(counts > 0, torch.where(counts > 0, found, 0.0).exp() - counts, 0.0)


def received_attention(query: Tensor, key: Tensor, lse: Tensor, spec: Spec) -> Tensor:
    """Return the sums of the soft attention over queries, (B, H, S): keys ask, and ``phi_ij - lse_i`` is a product."""
    assert spec.query_mask is not None
    asking = torch.cat([key, torch.ones_like(key[..., :1])], -1)
    asked = torch.cat([query * spec.scale, -lse[..., None]], -1)
    _, found = run(narrow(asking), narrow(asked), zeros(asked), transposed_mask(spec.mask, spec.query_mask))
    return found.exp()


def row_counts(spec: Spec, device: torch.device) -> Tensor:
    """Return the number of keys of each row, (B, H, T)."""
    batch, heads, queries, keys = spec.mask.shape
    if spec.mask.allowed is not None:
        return spec.mask.allowed.expand(-1, -1, -1, keys).sum(dim=-1).expand(batch, heads, queries).float()
    last = torch.arange(1, queries + 1, device=device).clamp(max=keys)
    return (last if spec.mask.causal else torch.full_like(last, keys)).expand(batch, heads, queries).float()


def narrow(x: Tensor) -> Tensor:
    """Return features with zeros behind them, as many as the kernels need."""
    return pad(x, (0, -x.shape[-1] % WIDTH))


def zeros(like: Tensor) -> Tensor:
    """Return narrow values, where only the log-sum-exp is wanted."""
    return like.new_zeros(*like.shape[:3], WIDTH)
