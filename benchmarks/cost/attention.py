"""Attention alone, forward and backward: one text, 12 heads of size 64."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from hf_bam.attention.backends import attend
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull
from hf_bam.objective import kl_divergence
from hf_bam.priors import Gamma

HEADS, WIDTH = 12, 64
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
GROUPS = (("plain", "BAM", "BAM, k=5", "matrix"), ("plain, causal", "BAM, causal"))
"""Kinds of attention that are compared; BAM has the default settings unless its name says otherwise."""
LONGEST = {kind: 2048 if kind == "matrix" else 4096 for group in GROUPS for kind in group}
"""Kinds of attention, with the largest number of tokens that each is measured with."""
PRIOR = Gamma(100.0)


def inputs(tokens):
    """Return random queries, keys and values, (1, H, T, D), and the log mean of the prior, (1, H, 1, T)."""
    torch.manual_seed(0)
    projections = [torch.randn(1, tokens, HEADS, WIDTH).transpose(1, 2) for _ in range(3)]
    log_psi = torch.randn(1, HEADS, 1, tokens).log_softmax(-1)
    return [tensor.requires_grad_() for tensor in (*projections, log_psi)]


def attention_pass(kind, tokens):
    """Return a function that computes attention, its KL if it has one, and their gradients."""
    query, key, value, log_psi = inputs(tokens)
    causal, posterior = kind.endswith("causal"), Weibull(5.0 if kind.endswith("k=5") else 1.0)
    mask = AttentionMask((1, HEADS, tokens, tokens), causal=causal)

    def plain():
        scaled_dot_product_attention(query, key, value, is_causal=causal).sum().backward()

    def bam():
        done = attend(
            query,
            key,
            value,
            posterior=posterior,
            prior=PRIOR,
            seed=NoiseSeed(0),
            scale=WIDTH**-0.5,
            mask=mask,
            log_psi=log_psi,
        )
        (done.output.sum() + done.kl.sum()).backward()

    def matrix():
        log_p = ((query @ key.transpose(-1, -2)) / math.sqrt(WIDTH)).log_softmax(-1)
        weights = (log_p + posterior.log_noise(log_p.shape)).softmax(-1)
        ((weights @ value).sum() + kl_divergence(posterior, PRIOR, log_p, log_psi).sum()).backward()

    return plain if kind.startswith("plain") else matrix if kind == "matrix" else bam
