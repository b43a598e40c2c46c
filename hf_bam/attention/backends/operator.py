"""Compiled kernel as torch operators: `torch.ops.hf_bam.attend` and its backward pass.

`torch.compile` keeps an operator as one node of its graph. The seed is a tensor, so that the graph draws a new one in
every step. Everything of a [`Spec`][hf_bam.attention.backends.spec.Spec] is an argument of its own, for an operator
takes tensors and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ..mask import AttentionMask
from ..noise import NoiseSeed
from .blocks import attend_by_blocks
from .distributions import decode, encode
from .launch import launch_backward, launch_forward
from .spec import Parts, Spec

_SPEC = (
    "Tensor? allowed, Tensor? bias, Tensor? noise, Tensor? query_mask, Tensor seed, Tensor? row_seeds, "
    "Tensor? first_query, Tensor? first_key, bool causal, float scale, float dropout, float[] posterior, float[] prior"
)
_INPUTS = "Tensor query, Tensor key, Tensor value, Tensor? logits"
_GRADS = "Tensor lse, Tensor noisy_lse, Tensor? output_grad, Tensor? kl_grad, Tensor? received_grad"


def attend_natively(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> Parts:
    """Compute ``softmax(scale * q.k + bias + noise) @ v`` with the KL of its rows, in the compiled kernel.

    Nothing of size T x S is stored: the noise is computed again in the backward pass, which keeps the arguments and
    two numbers per row, the log sums of the exponential scores with and without noise.

    Returns:
        Output (B, H, T, D_v) as a view of (B, T, H, D_v); KL (B, H, T) or None without `logits`; sums of the soft
        attention over the queries of `spec.query_mask`, (B, H, S), or None without one.
    """
    inputs = (query, key, value, logits)
    if needs_operator(query):
        output, kl, received, _, _ = torch.ops.hf_bam.attend(*inputs, *_flat(spec))
    elif torch.is_grad_enabled():
        output, kl, received, _, _ = _Attend.apply(*inputs, *_flat(spec))  # type: ignore[no-untyped-call]
    else:
        output, kl, received, _, _ = launch_forward(*inputs, spec)
    kl, received = None if logits is None else kl, None if spec.query_mask is None else received
    return Parts(output.transpose(1, 2), kl, received)


def needs_operator(x: Tensor) -> bool:
    """Return whether something follows or transforms the call: a compiler, a tracer, a dispatch mode or `torch.func`.

    Otherwise the kernel is called directly: torch's dispatcher takes longer than a call with few queries.
    """
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or is_in_torch_dispatch_mode()
    return traced or type(x) is not Tensor or torch._C._are_functorch_transforms_active()


def _flat(spec: Spec) -> tuple[Any, ...]:
    mask, seed = spec.mask, spec.seed
    bias = None if mask.bias is None else mask.bias.detach().float()
    tensors = (mask.allowed, bias, spec.noise, spec.query_mask)
    seeds = (torch.as_tensor(seed.call, device="cpu"), seed.rows, seed.first_query, seed.first_key)
    return *tensors, *seeds, mask.causal, spec.scale, spec.dropout, *encode(spec.posterior, spec.prior)


def _spec(query: Tensor, key: Tensor, flat: Sequence[Any]) -> Spec:
    """Return the arguments that `_flat` gave these values."""
    allowed, bias, noise, query_mask, *seeds, causal, scale, dropout, posterior, prior = flat
    batch, heads, queries, _ = query.shape
    mask = AttentionMask((batch, heads, queries, key.shape[2]), allowed, causal, bias)
    found, of_prior = decode(posterior, prior)
    return Spec(found, scale, NoiseSeed(*seeds), mask, dropout, noise, query_mask, of_prior)


torch.library.define(
    "hf_bam::attend",
    f"({_INPUTS}, {_SPEC}) -> (Tensor output, Tensor kl, Tensor received, Tensor lse, Tensor noisy_lse)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    "hf_bam::attend_backward",
    f"({_INPUTS}, {_GRADS}, {_SPEC}) -> (Tensor query, Tensor key, Tensor value, Tensor logits)",
    tags=torch.Tag.pt2_compliant_tag,
)


@torch.library.impl("hf_bam::attend", "cpu")
def _attend(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, *flat: Any) -> tuple[Tensor, ...]:
    """Return output (B, T, H, D_v), KL, sums of the attention and two log sums per row; empty where not wanted."""
    return launch_forward(query, key, value, logits, _spec(query, key, flat))


@torch.library.impl("hf_bam::attend", "meta")
def _attend_shapes(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, *flat: Any) -> tuple[Tensor, ...]:
    batch, heads, queries, _ = query.shape
    lse, noisy_lse, kl = (query.new_empty(batch, heads, queries, dtype=torch.float32) for _ in range(3))
    received = lse.new_empty(batch, heads, key.shape[2])
    wants_received = flat[3] is not None
    return (
        value.new_empty(batch, queries, heads, value.shape[3]),
        lse.new_empty(0) if logits is None else kl,
        received if wants_received else lse.new_empty(0),
        lse,
        noisy_lse,
    )


@torch.library.impl("hf_bam::attend_backward", "cpu")
def _attend_backward(
    query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    """Return gradients: (B, T, H, D), (B, S, H, D), (B, S, H, D_v) and (B, H, S), the last one empty without a KL."""
    return launch_backward(query, key, value, logits, *rest[:5], spec=_spec(query, key, rest[5:]))


@torch.library.impl("hf_bam::attend_backward", "meta")
def _attend_backward_shapes(
    query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    batch, heads, keys, _ = key.shape
    has_kl = rest[3] is not None
    return (
        *(x.new_empty(batch, x.shape[2], heads, x.shape[3]) for x in (query, key, value)),
        query.new_empty((batch, heads, keys) if has_kl else (0,), dtype=torch.float32),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.numbers = inputs[:12], inputs[12:]
    ctx.set_materialize_grads(False)
    # The parameters of the prior alone do not reach the output; what is not wanted is empty.
    reached = any(ctx.needs_input_grad[:3]), tensors[3] is not None, tensors[7] is not None, False, False
    ctx.mark_non_differentiable(*(x for x, differentiable in zip(output, reached, strict=True) if not differentiable))
    ctx.save_for_backward(*tensors, *output[3:])


def _backward(ctx: Any, output_grad: Tensor | None, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, lse, noisy_lse = ctx.saved_tensors
    inputs, flat = tuple(tensors[:4]), (*tensors[4:], *ctx.numbers)
    rest = (None,) * len(flat)
    of_results = (output_grad, *grads[:2])
    if torch.is_grad_enabled():  # create_graph=True
        return *_differentiable_grads(inputs, _spec(inputs[0], inputs[1], flat), of_results), *rest
    given = (*inputs, lse, noisy_lse, *of_results)
    if needs_operator(inputs[0]):
        *found, logits_grad = torch.ops.hf_bam.attend_backward(*given, *flat)
    else:
        *found, logits_grad = launch_backward(*given, spec=_spec(inputs[0], inputs[1], flat))
    return *(x.transpose(1, 2) for x in found), None if grads[0] is None else logits_grad, *rest


torch.library.register_autograd("hf_bam::attend", _backward, setup_context=_keep)


class _Attend(torch.autograd.Function):
    """The operator without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        query, key, value, logits, *flat = inputs
        output = launch_forward(query, key, value, logits, _spec(query, key, flat))
        _keep(ctx, inputs, output)
        return output

    backward = staticmethod(_backward)


def _differentiable_grads(
    tensors: tuple[Any, ...], spec: Spec, grads: tuple[Tensor | None, ...]
) -> Iterator[Tensor | None]:
    """Return gradients that can be differentiated again, through torch."""
    # Views: the logits follow from the keys, and that way of the gradient is not ours.
    views: list[Any] = [None if x is None else x.view_as(x) for x in tensors]
    query, key, value, logits = views
    output, *others = attend_by_blocks(query, key, value, logits, spec)[:3]
    inputs = [x for x in views if x is not None and x.requires_grad]
    results = zip((output.transpose(1, 2), *others), grads, strict=True)
    values, given = zip(*((x, grad) for x, grad in results if grad is not None), strict=True)
    found = iter(torch.autograd.grad(values, inputs, given, create_graph=True, allow_unused=True))
    return (None if x is None or not x.requires_grad else next(found) for x in views)


def _one_by_one(operator: Any) -> Any:
    """Return the rule of an operator for `torch.vmap`: a call for each entry of the dimension."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        calls = (
            [x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(args, in_dims, strict=True)]
            for i in range(info.batch_size)
        )
        results = [torch.stack(parts) for parts in zip(*(operator(*call) for call in calls), strict=True)]
        return tuple(results), (0,) * len(results)

    return rule


for _name in ("attend", "attend_backward"):
    torch.library.register_vmap(f"hf_bam::{_name}", _one_by_one(getattr(torch.ops.hf_bam, _name)))
