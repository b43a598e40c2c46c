"""Backends of the score stage: attention with noisy scores, without a matrix of weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...families import Family, Posterior, ScoreFamily
from ...objective import KlTerm
from ..call import AttentionCall
from ..mask import AttentionMask
from ..noise import NoiseSeed, log_noise
from . import native
from .blocks import attend_by_blocks
from .distributions import knows
from .operator import attend_natively
from .spec import Parts, Spec

Compute = Callable[[Tensor, Tensor, Tensor, Tensor | None, Spec], Parts]


class Blocks:
    """Backend of torch operations over blocks of queries, for every device and dtype."""

    compute: Compute = staticmethod(attend_by_blocks)

    def supports(self, call: AttentionCall) -> bool:
        """Return whether the scores have noise, and nothing else of the attention is random.

        A compiler gets the matrix, which it fuses: it does not trace what runs again in the backward pass. So does a
        dropout of all weights.
        """
        return not torch.compiler.is_compiling() and self.takes(call)

    def takes(self, call: AttentionCall) -> bool:
        return call.layer is not None and is_plain(call.layer.family) and call.dropout < 1

    def run(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """Return output, (B, T, H, D_v), and weights; in training the KL goes to the open forward pass."""
        assert call.layer is not None
        family: ScoreFamily = call.layer.family
        options: dict[str, Any] = {"mask": call.mask, "scale": call.scale, "dropout": call.dropout}
        options |= {"posterior": family.posterior, "noise": family.noise, "seed": call.seed()}
        options |= {"softcap": call.softcap, "wants_weights": call.wants_weights, "groups": call.groups}
        tensors = (call.query, call.key, call.value)
        if not call.layer.training or not family.has_kl:
            done = attend(*tensors, **options, compute=self.compute)
            call.collect([])
        elif family.noise == "entry":
            batch, heads, queries, keys = call.mask.shape
            all_queries = torch.ones(batch, queries, dtype=torch.bool, device=call.query.device)
            network: Any = call.layer.prior
            log_psi = network(call.key, call.mask.keys(all_queries)).expand(batch, heads, 1, keys)
            options |= {"prior": family.prior_distribution, "log_psi": log_psi}
            done = attend(*tensors, **options, compute=self.compute)
            assert done.kl is not None
            call.collect([KlTerm(done.kl, call.mask.count_keys(call.query.device), call.query_mask())])
        else:
            query_mask = family.shared_query_mask(call)
            done = attend(*tensors, **options, query_mask=query_mask, compute=self.compute)
            assert done.received is not None
            call.collect([family.shared_kl_term(done.received, query_mask, call)])
        return done.output, done.weights


class Native(Blocks):
    """Backend of the compiled kernel, for CPUs."""

    compute: Compute = staticmethod(attend_natively)

    def supports(self, call: AttentionCall) -> bool:
        if call.layer is None or not self.takes(call) or needs_torch(call.mask, call.softcap, call.wants_weights):
            return False
        family: ScoreFamily = call.layer.family
        return runs_natively(call.query, call.key, family.posterior, family.prior_distribution)


def is_plain(family: Family) -> bool:
    """Return whether a family samples and has the loss terms of `ScoreFamily`, which fused backends compute."""
    names = ("sample", "log_noise", "terms", "kl_term")
    return isinstance(family, ScoreFamily) and all(
        getattr(type(family), name) is getattr(ScoreFamily, name) for name in names
    )


def needs_torch(mask: AttentionMask, softcap: float | None, wants_weights: bool) -> bool:
    """Return whether a call is beyond the compiled kernel: weights, capped scores, a bias that takes a gradient."""
    return wants_weights or softcap is not None or (mask.bias is not None and mask.bias.requires_grad)


def runs_natively(query: Tensor, key: Tensor, posterior: Posterior, prior: Any) -> bool:
    """Return whether there is a compiled kernel and it takes these tensors and distributions."""
    on_cpu = query.device.type == "cpu" and query.dtype != torch.float64
    return on_cpu and knows(posterior, prior) and query.numel() > 0 and key.numel() > 0 and native.available()


@dataclass(frozen=True)
class Attended:
    """Result of a stochastic attention call.

    Attributes:
        output: (B, T, H, D_v), contiguous.
        kl: (B, T) nats for each query, summed over heads and the keys of its mask; None without a prior.
        received: (B, H, S) soft attention that each key gets from the queries of `query_mask`; None without one.
        weights: (B, H, T, S) sampled weights, if they are asked for.
    """

    output: Tensor
    kl: Tensor | None
    received: Tensor | None
    weights: Tensor | None = None


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
    prior: Any = None,
    log_psi: Tensor | None = None,
    query_mask: Tensor | None = None,
    softcap: float | None = None,
    wants_weights: bool = False,
    groups: int = 1,
    compute: Compute | None = None,
) -> Attended:
    """Compute attention with sampled weights, and its KL, without a matrix of weights.

    Args:
        query: (B, H, T, D).
        key: (B, H, S, D).
        value: (B, H, S, D_v).
        posterior: the distribution of the noise.
        seed: of noise and dropout; the same seed gives the same sample.
        scale: of the scores.
        mask: the keys that a query may attend to, and the bias of the scores.
        dropout: probability with which a weight is dropped.
        noise: `"entry"`, a value for each weight, `"key"`, one for each head and key, or `"token"`, one for each key.
        prior: the prior distribution, if the KL of rows is wanted.
        log_psi: (B, H, 1, S) log prior attention of the keys, if the KL of rows is wanted. For a query whose mask has
            only some of them it is normalised over these.
        query_mask: (B, T) queries whose soft attention is summed for each key, if that is wanted.
        softcap: bound of the scores, by a tanh.
        wants_weights: whether the weights are asked for.
        groups: number of neighbouring heads that have the same keys and values, for backends that use it.
        compute: the implementation; None: the kernel where it runs, else torch.
    """
    check_shapes(query, key, value)
    if log_psi is not None and prior is None:
        raise ValueError("log_psi is given without prior; the KL of rows needs both.")
    device = query.device.type
    autocast = torch.is_autocast_enabled(device)
    if autocast:
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    shared = None if noise == "entry" else key_noise(posterior, seed, key, shared=noise == "token")
    spec = Spec(posterior, scale, seed, mask, dropout, shared, query_mask, prior, softcap, wants_weights, groups)
    if compute is None:
        in_torch = needs_torch(mask, softcap, wants_weights) or not runs_natively(query, key, posterior, prior)
        compute = attend_by_blocks if in_torch else attend_natively
    logits = None if log_psi is None else log_psi.squeeze(2).to(torch.promote_types(query.dtype, torch.float32))
    with torch.autocast(device, enabled=False) if autocast else nullcontext():
        output, kl, received, weights = compute(query, key, value, logits, spec)
    return Attended(output.transpose(1, 2).contiguous(), None if kl is None else kl.sum(dim=1), received, weights)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` unless (B, H, T, D), (B, H, S, D) and (B, H, S, D_v) fit each other."""
    fits = query.dim() == key.dim() == value.dim() == 4 and query.shape[:2] == key.shape[:2]
    if not fits or query.shape[3] != key.shape[3] or key.shape[:3] != value.shape[:3]:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"Attention takes (B, H, T, D), (B, H, S, D) and (B, H, S, D_v); the call has {shapes}.")


def key_noise(posterior: Posterior, seed: NoiseSeed, key: Tensor, *, shared: bool) -> Tensor:
    """Return the log noise of each head and key, (B, H, 1, S); shared: the same for all heads."""
    batch, heads, keys, _ = key.shape
    generator = seed.for_keys().row_keys(batch, 1 if shared else heads, 1, key.device)
    return log_noise(posterior, generator, keys).expand(batch, heads, 1, keys).contiguous()
