"""Bayesian attention by the formulas of the paper, with the operations of torch and without fusion."""

import math

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from hf_bam.attention.mask import AttentionMask
from hf_bam.objective import KlTerm

NAME = "bam_naive"
EULER = 0.5772156649015329


def naive_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
    """Attend with Weibull weights and a Gamma prior; masks are boolean or None."""
    posterior, prior, beta = module.bam.family.posterior, module.bam.prior, module.bam.family.beta
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    mask = AttentionMask.read(attention_mask, (*query.shape[:3], key.shape[2]), causal)
    allowed = mask.rows(slice(0, query.shape[2]), query.device)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query @ key.transpose(-1, -2) * scale).masked_fill(~allowed, torch.finfo(query.dtype).min)
    mean = scores.softmax(dim=-1)
    weibull_scale = mean / math.gamma(1 + 1 / posterior.k)
    u = torch.rand_like(mean)
    sample = weibull_scale * (-torch.log(1 - u + 1e-20)) ** (1 / posterior.k)
    weights = sample / sample.sum(dim=-1, keepdim=True)

    alpha = beta * prior(key, allowed).exp()
    kl = (
        EULER * alpha / posterior.k
        - alpha * torch.log(weibull_scale + 1e-20)
        + math.log(posterior.k)
        + beta * weibull_scale * math.gamma(1 + 1 / posterior.k)
        - EULER
        - 1
        - alpha * math.log(beta)
        + torch.lgamma(alpha + 1e-20)
    ).masked_fill(~allowed, 0.0)
    frame = module.bam.runtime.frame
    if frame is not None and module.training:
        frame.sampled = True
        frame.add(KlTerm(kl.sum(dim=(1, 3)), allowed.expand(kl.shape).sum(dim=(1, 3))))
    weights = torch.nn.functional.dropout(weights, dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register(NAME, naive_attention)
AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
