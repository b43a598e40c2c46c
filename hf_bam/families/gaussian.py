"""Gaussian attention vectors: the output of attention is random (Bahuleyan et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..fields import setting
from ..objective import KlTerm, normal_kl
from .base import Call, Family
from .memory import SentenceLatent

NETWORK = "sigma"
"""Name of the network of the standard deviations among the children of a layer."""


class SigmaNetwork(nn.Module):
    """Standard deviations of an attention vector, ``sigma = exp(b + A2 tanh(A1 a))``, shared by the heads.

    The parameters are not in `nn.Linear` modules, which PEFT and quantisers would take for layers of the model.

    Args:
        size: size of an attention vector of a head.
        d_sigma: width of the hidden layer.
        initial_sigma: ``exp(b)`` before training.
    """

    def __init__(self, size: int, d_sigma: int, initial_sigma: float) -> None:
        super().__init__()
        self.hidden_weight = nn.Parameter(torch.empty(d_sigma, size).uniform_(-(size**-0.5), size**-0.5))
        self.output_weight = nn.Parameter(torch.empty(size, d_sigma).uniform_(-(d_sigma**-0.5), d_sigma**-0.5))
        self.bias = nn.Parameter(torch.full((size,), math.log(initial_sigma)))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return ``log sigma`` of vectors (..., D_v), in float32 or better."""
        dtype = torch.promote_types(self.bias.dtype, torch.float32)
        # Half precision would round small changes of a logarithm away.
        with torch.autocast(vectors.device.type, enabled=False):
            hidden = torch.tanh(linear(vectors.to(dtype), self.hidden_weight.to(dtype)))
            return linear(hidden, self.output_weight.to(dtype), self.bias.to(dtype))


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Attention vectors ``a ~ N(W V, diag(sigma^2))`` with ``sigma = exp(b + A2 tanh(A1 W V))``.

    The prior is ``N(0, I)`` or ``N(mean of the values, I)``. The mean of a sample is soft attention.
    """

    stage = "output"

    prior: str = setting("standard", choices=("standard", "mean_value", "none"))
    """Prior of an attention vector: `"standard"`, N(0, I); `"mean_value"`, N(m, I) for the mean m of the values that
    the query may attend to; `"none"`: no KL."""
    gamma: float = setting(1.0, least=0, most=1e6)
    """Weight of the KL of the attention vectors beside that of other latent variables, a factor on top of
    `kl_weight`."""
    initial_sigma: float = setting(0.1, least=0, most=1e3)
    """Standard deviation of the noise before training, about. 0: attention stays deterministic, for models with a
    `sentence_latent` alone."""
    d_sigma: int = setting(32, least=1, most=2**13)
    """Width of the hidden layer of the network that computes the standard deviations."""

    sentence_latent: int | None = setting(None, least=1, most=2**13)
    """Size of a Gaussian latent of the whole source text, which enters the decoder's memory as one more position.
    none: no such latent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial_sigma == 0 and self.sentence_latent is None:
            raise ValueError(
                "BamConfig.initial_sigma=0 leaves nothing random; it must be above 0, or sentence_latent given."
            )

    @property
    def in_attention(self) -> bool:
        return self.initial_sigma > 0

    def memory(self, width: int) -> SentenceLatent | None:
        return None if self.sentence_latent is None else SentenceLatent(width, self.sentence_latent)

    def modules(self, head_dim: int) -> dict[str, nn.Module]:
        return {NETWORK: SigmaNetwork(head_dim, self.d_sigma, self.initial_sigma)}

    def sample(self, vectors: Tensor, call: Call) -> Tensor:
        """Return ``a + sigma * eps``, (B, H, T, D_v); a query that may attend to nothing keeps its zeros."""
        sigma = call.layer.get_submodule(NETWORK)(vectors).exp()
        noise = torch.special.ndtri(call.uniform(vectors.shape[-1], first=0)).to(sigma)
        return vectors + (sigma * noise).masked_fill(~attends(vectors, call), 0.0).to(vectors.dtype)

    def terms(self, vectors: Tensor, call: Call) -> Iterator[KlTerm]:
        """Yield ``gamma`` times the KL of the attention vectors of each query, with one entry for each head."""
        if self.prior == "none":
            return
        log_sigma = call.layer.get_submodule(NETWORK)(vectors)
        shift = vectors.to(log_sigma) - (mean_value(call).to(log_sigma) if self.prior == "mean_value" else 0.0)
        allowed = attends(vectors, call)[..., 0].expand(vectors.shape[:3])  # (B, H, T)
        kl = normal_kl(shift, log_sigma).sum(dim=-1).masked_fill(~allowed, 0.0)
        yield KlTerm(self.gamma * kl.sum(dim=1), allowed.sum(dim=1), call.query_mask())


def attends(vectors: Tensor, call: Call) -> Tensor:
    """Return whether each query may attend to any key, (B or 1, H or 1, T or 1, 1)."""
    return call.mask.rows(slice(0, vectors.shape[2]), vectors.device).any(dim=-1, keepdim=True)


def mean_value(call: Call) -> Tensor:
    """Return the mean of the values that each query may attend to, (B, H, T or 1, D_v)."""
    value = call.value.to(torch.promote_types(call.value.dtype, torch.float32))
    mask = call.mask.rows(slice(0, call.mask.shape[2]), value.device).to(value)  # (B or 1, H or 1, T or 1, S)
    with torch.autocast(value.device.type, enabled=False):
        return (mask @ value) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
