"""The one function of this package that attention calls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...families import Posterior
from ...priors import PriorDistribution
from ..mask import AttentionMask
from ..noise import NoiseSeed, log_noise
from . import native
from .blocks import attend_by_blocks
from .function import FusedAttention, knows
from .spec import Spec


@dataclass(frozen=True)
class Attended:
    """What came out of a stochastic attention call.

    Attributes:
        output: (B, T, H, D_v), contiguous.
        kl: (B, T) nats for each query, summed over heads and the keys it sees; None without a prior.
        received: (B, H, S) soft attention that each key gets from the counted queries; None unless asked for.
    """

    output: Tensor
    kl: Tensor | None
    received: Tensor | None


@torch.compiler.disable
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    posterior: Posterior,
    seed: NoiseSeed,
    scale: float,
    mask: AttentionMask,
    dropout: float = 0.0,
    noise: str = "entry",
    prior: PriorDistribution | None = None,
    log_psi: Tensor | None = None,
    counted: Tensor | None = None,
) -> Attended:
    """Attention with weights drawn around the soft attention, and its KL, without a matrix of weights.

    Args:
        query: (B, H, T, D).
        key: (B, H, S, D).
        value: (B, H, S, D_v).
        posterior: the law of the noise.
        seed: of noise and dropout; the same seed gives the same draw.
        scale: of the scores.
        mask: the keys that a query may attend to. What it adds to the scores takes no gradient.
        dropout: probability with which a weight is dropped.
        noise: `"entry"`, a draw for each weight, `"key"`, one for each head and key, or `"token"`, one for each key.
        prior: the prior distribution, if the KL of rows is wanted.
        log_psi: (B, H, 1, S) log prior attention of the keys, if the KL of rows is wanted. For a query that sees
            only some of them it is normalised over these.
        counted: (B, T) queries whose soft attention is summed for each key, if that is wanted.
    """
    check_shapes(query, key, value)
    if log_psi is not None and prior is None:
        raise ValueError("log_psi is given without prior; the KL of rows needs both.")
    device = query.device.type
    if torch.is_autocast_enabled(device):
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    if mask.bias is not None:
        mask = replace(mask, bias=mask.bias.detach().float())
    spec = Spec(
        posterior,
        scale,
        seed,
        mask,
        dropout=dropout,
        noise=None if noise == "entry" else key_noise(posterior, seed, key, shared=noise == "token"),
        counted=counted,
        prior=prior,
    )
    logits = None if log_psi is None else log_psi.squeeze(2).to(torch.promote_types(query.dtype, torch.float32))
    compute = FusedAttention.apply if runs_natively(query, key, spec) else attend_by_blocks
    with torch.autocast(device, enabled=False):
        output, kl, received = compute(query, key, value, logits, spec)
    return Attended(output.transpose(1, 2).contiguous(), None if kl is None else kl.sum(dim=1), received)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raises `ValueError` unless (B, H, T, D), (B, H, S, D) and (B, H, S, D_v) fit each other."""
    fits = query.dim() == key.dim() == value.dim() == 4 and query.shape[:2] == key.shape[:2]
    if not fits or query.shape[3] != key.shape[3] or key.shape[:3] != value.shape[:3]:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"Attention takes (B, H, T, D), (B, H, S, D) and (B, H, S, D_v); the call has {shapes}.")


def runs_natively(query: Tensor, key: Tensor, spec: Spec) -> bool:
    """Whether the compiled kernel can take the call."""
    fits = query.device.type == "cpu" and query.dtype != torch.float64 and knows(spec.posterior, spec.prior)
    return fits and query.numel() > 0 and key.numel() > 0 and native.available()


def key_noise(posterior: Posterior, seed: NoiseSeed, key: Tensor, *, shared: bool) -> Tensor:
    """Log noise for each head and key, (B, H, 1, S); shared: the same for all heads."""
    batch, heads, keys, _ = key.shape
    generator = seed.for_keys().row_keys(batch, 1 if shared else heads, 1, key.device)
    return log_noise(posterior, generator, keys).expand(batch, heads, 1, keys).contiguous()
