"""Stochastic attention by the compiled kernel: forward and backward, nothing of size T x S is stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ...families import Lognormal, Posterior, Weibull
from ...priors import Gamma, LognormalPrior
from . import native
from .blocks import attend_by_blocks
from .spec import Spec

_LEAST = 32  # rows of a head that are worth a job of their own


POSTERIORS: dict[type[Posterior], Callable[[Any], dict[str, float]]] = {
    Weibull: lambda q: {"family": 0, "k": q.k, "spread": 1 / q.k, "offset": -math.lgamma(1 + 1 / q.k)},
    Lognormal: lambda q: {"family": 1, "sigma": q.sigma, "spread": q.sigma, "offset": -(q.sigma**2) / 2},
}
"""Posteriors of the kernel, with their parameters in its terms."""


def _gamma(prior: Gamma) -> dict[str, float]:
    if prior.alpha is not None:
        return {"beta": prior.beta, "shape_slope": 0.0, "shape_offset": math.log(prior.alpha)}
    offset = math.log(prior.beta) if prior.prior_shape == "beta*psi" else 0.0
    return {"beta": prior.beta, "shape_slope": 1.0, "shape_offset": offset}


PRIORS: dict[type, Callable[[Any], dict[str, float]]] = {
    Gamma: _gamma,
    LognormalPrior: lambda p: {"sigma_prior": p.sigma_prior},
}
"""Priors of the kernel, likewise."""


def knows(posterior: Posterior, prior: Any) -> bool:
    """Return whether the kernel can sample the posterior and compute its KL to the prior, if there is one."""
    return type(posterior) in POSTERIORS and (prior is None or type(prior) in PRIORS)


class FusedAttention(torch.autograd.Function):
    """``softmax(scale * q.k + bias + noise) @ v`` with the KL of its rows, by query blocks.

    The noise is computed again in the backward pass. Saved are the arguments and two numbers per row: the log sums of
    the exponential scores with and without noise.

    Returns:
        Output (B, H, T, D_v) as a view of (B, T, H, D_v); KL (B, H, T) or None without `logits`; sums of the soft
        attention over the queries of `spec.query_mask`, (B, H, S), or None without one.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        batch, heads, queries, _ = spec.mask.shape
        output = query.new_empty(batch, queries, heads, value.shape[3], dtype=torch.float32).transpose(1, 2)
        lse, noisy_lse = query.new_empty(2, batch, heads, queries, dtype=torch.float32)
        kl = None if logits is None else torch.empty_like(lse)
        views = {"query": query, "key": key, "value": value, "output": output}
        given = {"logits": logits, "lse": lse, "noisy_lse": noisy_lse, "kl": kl}
        received = _run(spec, views, given, sums=spec.query_mask is not None)
        ctx.spec = spec
        ctx.set_materialize_grads(False)
        output = output.to(value.dtype)
        if not any(ctx.needs_input_grad[:3]):
            ctx.mark_non_differentiable(output)  # the prior's parameters alone do not reach it
        ctx.save_for_backward(query, key, value, logits, lse, noisy_lse)
        return output, kl, received

    @staticmethod
    def backward(
        ctx: Any, output_grad: Tensor | None, kl_grad: Tensor | None, received_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        query, key, value, logits, lse, noisy_lse = ctx.saved_tensors
        spec: Spec = ctx.spec
        if torch.is_grad_enabled():  # create_graph=True
            of_results = (output_grad, kl_grad, received_grad)
            return *_differentiable_grads(query, key, value, logits, spec, of_results), None
        parts, (batch, heads, queries, keys) = _parts(spec), spec.mask.shape
        if output_grad is None:
            output_grad = value.new_zeros(()).expand(batch, heads, queries, value.shape[3])
        # Memory in the order in which models have it: (B, T, H, D).
        query_grad = lse.new_empty(batch, queries, heads, query.shape[3]).transpose(1, 2)
        key_grad, value_grad = (
            lse.new_empty(parts, batch, keys, heads, x.shape[3]).transpose(2, 3) for x in (key, value)
        )
        views = {"query": query, "key": key, "value": value, "output_grad": output_grad}
        grads = {"query_grad": query_grad, "key_grad": key_grad, "value_grad": value_grad}
        given = {"logits": logits, "lse": lse, "noisy_lse": noisy_lse, "kl_grad": kl_grad, "mean_grad": received_grad}
        logits_grad = _run(spec, views | grads, given, sums=kl_grad is not None)
        key_grad, value_grad = (x[0] if parts == 1 else x.sum(dim=0) for x in (key_grad, value_grad))
        return query_grad.to(query.dtype), key_grad.to(key.dtype), value_grad.to(value.dtype), logits_grad, None


def _differentiable_grads(
    query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec, grads: tuple[Tensor | None, ...]
) -> Iterator[Tensor | None]:
    """Return gradients that can be differentiated again, through torch."""
    # Views: the logits follow from the keys, and that way of the gradient is not ours.
    query, key, value = (x.view_as(x) for x in (query, key, value))
    logits = None if logits is None else logits.view_as(logits)
    outputs = attend_by_blocks(query, key, value, logits, spec)
    inputs = [x for x in (query, key, value, logits) if x is not None and x.requires_grad]
    values, given = zip(*((x, grad) for x, grad in zip(outputs, grads, strict=True) if grad is not None), strict=True)
    found = iter(torch.autograd.grad(values, inputs, given, create_graph=True, allow_unused=True))
    return (None if x is None or not x.requires_grad else next(found) for x in (query, key, value, logits))


def _run(spec: Spec, views: dict[str, Tensor], given: dict[str, Tensor | None], *, sums: bool) -> Tensor | None:
    """Run the kernel.

    Args:
        views: tensors (B, H, T or S, D) and such with parts before, under their names in `kernel/call.h`.
        given: float32 tensors in which heads count through the batch, likewise.
        sums: whether sums over queries are wanted: of the soft attention; backwards, the gradient of the logits.

    Returns:
        (B, H, S), the sums if they are wanted.
    """
    batch, heads, queries, keys = shape = spec.mask.shape
    parts = _parts(spec)
    columns = torch.empty(batch, heads, parts, keys, dtype=torch.float32) if sums else None
    masks = {"allowed": spec.mask.allowed, "bias": spec.mask.bias}
    views = {name: _with_rows(x.float()) for name, x in views.items()}
    for name, mask in masks.items():
        if mask is not None:
            views[name] = _with_rows(mask.expand(*mask.shape[:-1], keys)).expand(shape)
    given = {"noise": spec.noise, "query_mask": spec.query_mask, "columns": columns, **given}
    tensors = {name: x.float().contiguous() for name, x in given.items() if x is not None}
    seeds = {"row_seeds": spec.seed.rows, "first_query": spec.seed.first_query, "first_key": spec.seed.first_key}
    tensors |= {name: x.to("cpu", torch.int64).contiguous() for name, x in seeds.items() if x is not None}
    _check(spec, views, tensors)
    native.run(
        native.Call(
            batch=batch,
            heads=heads,
            rows=queries,
            keys=keys,
            width=views["query"].shape[3],
            value_width=views["value"].shape[3],
            parts=parts,
            causal=spec.mask.causal,
            seed=spec.seed.call,
            scale=spec.scale,
            dropout=spec.dropout,
            **POSTERIORS[type(spec.posterior)](spec.posterior),
            **({} if spec.prior is None else PRIORS[type(spec.prior)](spec.prior)),
            **{name: native.View.of(x) for name, x in views.items()},
            **{name: x.data_ptr() for name, x in tensors.items()},
        )
    )
    return None if columns is None else columns.sum(dim=2)


def _check(spec: Spec, views: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise `ValueError` where the memory of a tensor is not what the kernel takes it for."""
    batch, heads, queries, keys = spec.mask.shape
    rows = {"key": keys, "value": keys, "key_grad": keys, "value_grad": keys}
    for name, view in views.items():
        first, last = view.shape[-4:-1], {"allowed": torch.bool}.get(name, torch.float32)
        if first != (batch, heads, rows.get(name, queries)) or view.dtype != last or view.device.type != "cpu":
            raise ValueError(f"{name} has shape {tuple(view.shape)} and {view.dtype} in a call of {spec.mask.shape}.")
    by_query, by_key = batch * heads * queries, batch * heads * keys
    sizes = dict.fromkeys(("lse", "noisy_lse", "kl", "kl_grad"), by_query)
    sizes |= dict.fromkeys(("noise", "logits", "mean_grad"), by_key) | {"columns": by_key * _parts(spec)}
    sizes |= dict.fromkeys(("row_seeds", "first_query", "first_key"), batch) | {"query_mask": batch * queries}
    for name, tensor in tensors.items():
        if tensor.numel() != sizes[name] or tensor.device.type != "cpu":
            raise ValueError(f"{name} has {tensor.numel()} numbers in a call of {spec.mask.shape}.")


def _parts(spec: Spec) -> int:
    """Return the number of jobs into which the rows of a head are cut, so that all threads have some."""
    batch, heads, queries, _ = spec.mask.shape
    return max(1, min(queries // _LEAST, -(-2 * torch.get_num_threads() // (batch * heads))))


def _with_rows(x: Tensor) -> Tensor:
    """Return the tensor with contiguous rows."""
    return x if x.stride(-1) == 1 else x.contiguous()
