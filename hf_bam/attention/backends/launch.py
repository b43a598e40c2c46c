"""Calls of the compiled kernel: memory for its results, checks of what it gets, jobs for its threads."""

from __future__ import annotations

import torch
from torch import Tensor

from . import native
from .distributions import terms
from .spec import Spec

_LEAST = 32  # rows of a head that are worth a job of their own


def launch_forward(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> tuple[Tensor, ...]:
    """Return output (B, T, H, D_v), KL, sums of the soft attention, and log sums of the rows without and with noise.

    KL and sums are empty where they are not wanted.
    """
    batch, heads, queries, _ = spec.mask.shape
    output = query.new_empty(batch, queries, heads, value.shape[3], dtype=torch.float32)
    lse, noisy_lse = (query.new_empty(batch, heads, queries, dtype=torch.float32) for _ in range(2))
    kl = None if logits is None else torch.empty_like(lse)
    views = {"query": query, "key": key, "value": value, "output": output.transpose(1, 2)}
    given = {"logits": logits, "lse": lse, "noisy_lse": noisy_lse, "kl": kl}
    received = _run(spec, views, given, sums=spec.query_mask is not None)
    wanted = (lse.new_empty(0) if x is None else x for x in (kl, received))
    return output.to(value.dtype), *wanted, lse, noisy_lse


def launch_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    logits: Tensor | None,
    lse: Tensor,
    noisy_lse: Tensor,
    output_grad: Tensor | None,
    kl_grad: Tensor | None,
    received_grad: Tensor | None,
    *,
    spec: Spec,
) -> tuple[Tensor, ...]:
    """Return the gradients of queries, keys and values, (B, T or S, H, D), and of the logits, empty without a KL."""
    parts, (batch, heads, queries, keys) = _parts(spec), spec.mask.shape
    if output_grad is None:
        output_grad = value.new_zeros(()).expand(batch, queries, heads, value.shape[3])
    # Memory in the order in which models have it: (B, T, H, D).
    query_grad = lse.new_empty(batch, queries, heads, query.shape[3])
    key_grad, value_grad = (lse.new_empty(parts, batch, keys, heads, x.shape[3]) for x in (key, value))
    views = {"query": query, "key": key, "value": value, "output_grad": output_grad.transpose(1, 2)}
    grads = {"query_grad": query_grad, "key_grad": key_grad, "value_grad": value_grad}
    views |= {name: x.transpose(-2, -3) for name, x in grads.items()}
    given = {"logits": logits, "lse": lse, "noisy_lse": noisy_lse, "kl_grad": kl_grad, "mean_grad": received_grad}
    logits_grad = _run(spec, views, given, sums=kl_grad is not None)
    key_grad, value_grad = (x[0] if parts == 1 else x.sum(dim=0) for x in (key_grad, value_grad))
    found = (grad.to(x.dtype) for grad, x in ((query_grad, query), (key_grad, key), (value_grad, value)))
    return *found, lse.new_empty(0) if logits_grad is None else logits_grad


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
    bias = spec.mask.bias
    masks = {"allowed": spec.mask.allowed, "bias": None if bias is None else bias.float()}
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
            seed=int(spec.seed.call),
            scale=spec.scale,
            dropout=spec.dropout,
            **terms(spec.posterior, spec.prior),
            **{name: native.View.of(x) for name, x in views.items()},
            **{name: x.data_ptr() for name, x in tensors.items()},
        )
    )
    return None if columns is None else columns.sum(dim=2)


def _check(spec: Spec, views: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise `ValueError` where the memory of a tensor is not what the kernel takes it for."""
    batch, heads, queries, keys = spec.mask.shape
    rows = dict.fromkeys(("key", "value", "key_grad", "value_grad"), keys)
    widths = dict.fromkeys(("allowed", "bias"), keys) | {"key": views["query"].shape[3]}
    for name, view in views.items():
        shape = (batch, heads, rows.get(name, queries), widths.get(name, view.shape[-1]))
        dtype = torch.bool if name == "allowed" else torch.float32
        if view.shape[-4:] != shape or view.dtype != dtype or view.device.type != "cpu":
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
