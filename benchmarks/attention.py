"""Attention alone, forward and backward, 1 x 12 heads of 64 numbers."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from hf_bam.distributions import Weibull
from hf_bam.fused import Sight, attend

HEADS, WIDTH = 12, 64
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WAYS = {"plain": 4096, "BAM": 4096, "BAM, causal": 4096, "matrix": 2048}
"""Each with the longest text that is asked of it."""
LAW = Weibull(5.0, 100.0)


def attention_pass(way, tokens):
    """A function that runs attention, its KL if it has one, and their gradients."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, tokens, HEADS, WIDTH).transpose(1, 2).requires_grad_() for _ in range(3))
    log_psi = torch.randn(1, HEADS, 1, tokens).log_softmax(-1).requires_grad_()
    sight = Sight((1, HEADS, tokens, tokens), causal=way.endswith("causal"))

    def plain():
        scaled_dot_product_attention(query, key, value).sum().backward()

    def bam():
        done = attend(query, key, value, posterior=LAW, seed=0, scale=WIDTH**-0.5, sight=sight, log_psi=log_psi)
        (done.output.sum() + done.kl.sum()).backward()

    def matrix():
        log_p = ((query @ key.transpose(-1, -2)) / math.sqrt(WIDTH)).log_softmax(-1)
        weights = (log_p + LAW.log_noise(log_p.shape)).softmax(-1)
        ((weights @ value).sum() + LAW.kl(log_p, log_psi).sum()).backward()

    return {"plain": plain, "matrix": matrix}.get(way, bam)
