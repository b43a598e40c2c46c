"""The one function of this package that attention calls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..distributions import Posterior
from . import native
from .function import LAWS, FusedAttention
from .noise import log_noise, row_keys
from .portable import attend_by_blocks
from .sight import Sight
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
    seed: int,
    scale: float,
    sight: Sight,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    noise: str = "entry",
    log_psi: Tensor | None = None,
    counted: Tensor | None = None,
) -> Attended:
    """Attention with weights drawn around the soft attention, and its KL, without a matrix of weights.

    Args:
        query: (B, H, T, D).
        key: (B, H, S, D).
        value: (B, H, S, D_v).
        posterior: the law of the noise.
        seed: gives noise and dropout; the same seed gives the same draw.
        scale: of the scores.
        sight: which keys a query may attend to.
        bias: (B or 1, H or 1, T or 1, S), added to the scores. It takes no gradient.
        dropout: probability with which a weight is dropped.
        noise: `"entry"`, a draw for each weight, `"key"`, one for each head and key, or `"token"`, one for each key.
        log_psi: (B, H, 1, S) log prior attention of the keys, if the KL of rows is wanted. For a query that sees
            only some of them it is normalised over these.
        counted: (B, T) queries whose soft attention is summed for each key, if that is wanted.
    """
    device = query.device.type
    if torch.is_autocast_enabled(device):
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    spec = Spec(
        posterior,
        scale,
        seed,
        sight,
        bias=None if bias is None else bias.detach().float(),
        dropout=dropout,
        noise=None if noise == "entry" else key_noise(posterior, seed, key, shared=noise == "token"),
        counted=counted,
    )
    logits = None if log_psi is None else log_psi.squeeze(2).to(torch.promote_types(query.dtype, torch.float32))
    compute = FusedAttention.apply if runs_natively(query, posterior) else attend_by_blocks
    with torch.autocast(device, enabled=False):
        output, kl, received = compute(query, key, value, logits, spec)
    return Attended(output.transpose(1, 2).contiguous(), None if kl is None else kl.sum(dim=1), received)


def runs_natively(query: Tensor, posterior: Posterior) -> bool:
    """Whether the compiled kernel can take the call."""
    known = query.device.type == "cpu" and query.dtype != torch.float64 and type(posterior) in LAWS
    return known and native.available()


def key_noise(posterior: Posterior, seed: int, key: Tensor, *, shared: bool) -> Tensor:
    """Log noise for each head and key, (B, H, 1, S); shared: the same for all heads."""
    batch, heads, keys, _ = key.shape
    drawn = 1 if shared else heads
    generator = row_keys(seed, batch * drawn, 1, key.device).view(batch, drawn, 1, 2)
    return log_noise(posterior, generator, keys).expand(batch, heads, 1, keys).contiguous()
