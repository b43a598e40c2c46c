"""Stochastic attention by the compiled rows: forward and backward, nothing of size T x S kept or held as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..distributions import Lognormal, Posterior, Weibull
from . import native
from .noise import row_keys
from .spec import Spec, row_blocks

_CHUNK = 32  # rows of a head that one thread takes at a time


def _weibull(posterior: Weibull) -> dict[str, float]:
    shape_offset = math.log(posterior.beta) if posterior.prior_shape == "beta*psi" else 0.0
    return {
        "family": 0,
        "spread": 1 / posterior.k,
        "offset": -math.lgamma(1 + 1 / posterior.k),
        "k": posterior.k,
        "beta": posterior.beta,
        "shape_slope": 1.0 if posterior.alpha is None else 0.0,
        "shape_offset": shape_offset if posterior.alpha is None else math.log(posterior.alpha),
    }


def _lognormal(posterior: Lognormal) -> dict[str, float]:
    return {
        "family": 1,
        "spread": posterior.sigma,
        "offset": -(posterior.sigma**2) / 2,
        "sigma": posterior.sigma,
        "sigma_prior": posterior.sigma_prior,
    }


LAWS: dict[type[Posterior], Callable[[Any], dict[str, float]]] = {Weibull: _weibull, Lognormal: _lognormal}
"""The posteriors that `kernel.c` knows, with their numbers in its terms."""


class _Rows:
    """The compiled rows of one attention call, block by block.

    Args:
        per_row: float32 tensors (B, H, T) under their names in `kernel.c`.
        per_key: float32 tensors (B, H, S), likewise.
        sums: whether sums over rows are wanted: of the soft attention; backwards, the gradient of the prior's logits.
    """

    def __init__(
        self,
        spec: Spec,
        per_row: dict[str, Tensor | None],
        per_key: dict[str, Tensor | None],
        sums: bool,
    ) -> None:
        shape = spec.sight.shape
        batch, heads, queries, keys = shape
        generator = row_keys(spec.seed, batch * heads, queries).view(batch, heads, queries, 2)
        masks = {"visible": _whole_rows(spec.sight.visible, shape), "bias": _whole_rows(spec.bias, shape)}
        noise = None if spec.noise is None else spec.noise.squeeze(2)
        counted = None if spec.counted is None else spec.counted.float()
        self.sums = sums
        self.per_row = _given({"row_keys": generator, **per_row})
        self.per_key = _given({"noise": noise, **per_key})
        self.counted = _given({"counted": counted})
        self.masks = {name: mask for name, mask in masks.items() if mask is not None}
        self.call = native.Call(
            heads=heads,
            keys=keys,
            all_rows=queries,
            chunk=_CHUNK,
            causal=spec.sight.causal,
            dropout=spec.dropout,
            **LAWS[type(spec.posterior)](spec.posterior),
            **{f"{name}_head": mask.stride(1) for name, mask in self.masks.items()},
            **{f"{name}_row": mask.stride(2) for name, mask in self.masks.items()},
        )

    def run(self, b: int, first: int, scores: Tensor, weight_grad: Tensor | None = None) -> Tensor | None:
        """Turns the scores (H, R, S) of rows `first` and on of example `b` into weights, in place.

        Args:
            weight_grad: (H, R, S), turned into the gradient of the scores.

        Returns:
            (H, S), the sums over rows if they are wanted.
        """
        heads, rows, keys = scores.shape
        sums = scores.new_empty(heads, -(-rows // _CHUNK), keys) if self.sums else None
        places = {
            **{name: _address(x, b, 0, first) for name, x in (self.per_row | self.masks).items()},
            **{name: _address(x, b) for name, x in self.per_key.items()},
            **{name: _address(x, b, first) for name, x in self.counted.items()},
            "scores": scores.data_ptr(),
            "weight_grad": None if weight_grad is None else weight_grad.data_ptr(),
            "columns": None if sums is None else sums.data_ptr(),
        }
        self.call.rows, self.call.first_row = rows, first
        for name, place in places.items():
            setattr(self.call, name, place)
        native.run(self.call)
        return None if sums is None else sums.sum(dim=1)


def _address(tensor: Tensor, *index: int) -> int:
    offset = sum(i * stride for i, stride in zip(index, tensor.stride(), strict=False))
    return tensor.data_ptr() + offset * tensor.element_size()


def _given(tensors: dict[str, Tensor | None]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items() if tensor is not None}


def _whole_rows(mask: Tensor | None, shape: tuple[int, int, int, int]) -> Tensor | None:
    """Expanded to (B, H, T, S), with contiguous rows."""
    if mask is None:
        return None
    mask = mask.expand(*mask.shape[:-1], shape[-1])
    return (mask if mask.stride(-1) == 1 else mask.contiguous()).expand(shape)


class FusedAttention(torch.autograd.Function):
    """``softmax(scale * q.k + bias + noise) @ v`` with the KL of its rows, by query blocks.

    The noise is computed again in the backward pass. Saved are the arguments and two numbers per row: the log sums of
    the exponential scores with and without noise.

    Returns:
        Output (B, H, T, D_v) as a view of (B, T, H, D_v); KL (B, H, T) or None without `logits`; sums of the soft
        attention over the counted queries, (B, H, S), or None without `spec.counted`.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        batch, heads, queries, keys = spec.sight.shape
        output = value.new_empty(batch, queries, heads, value.shape[3]).transpose(1, 2)
        lse, noisy_lse = query.new_empty(2, batch, heads, queries, dtype=torch.float32)
        kl = None if logits is None else torch.empty_like(lse)
        received = None if spec.counted is None else lse.new_zeros(batch, heads, keys)
        rows = _Rows(
            spec,
            {"lse": lse, "noisy_lse": noisy_lse, "kl": kl},
            {"logits": logits},
            sums=received is not None,
        )
        space = _Space(1, queries, heads, keys)
        for b in range(batch):
            q, k, v = (query[b].float() * spec.scale, key[b].float(), value[b].float())
            for block, (scores,) in space.blocks():
                torch.bmm(q[:, block], k.transpose(1, 2), out=scores)
                sums = rows.run(b, block.start, scores)
                if received is not None and sums is not None:
                    received[b] += sums
                output[b, :, block] = torch.bmm(scores, v)
        ctx.spec = spec
        ctx.set_materialize_grads(False)
        if not any(ctx.needs_input_grad[:3]):
            ctx.mark_non_differentiable(output)  # the prior's parameters alone do not reach it
        ctx.save_for_backward(query, key, value, logits, lse, noisy_lse)
        return output, kl, received

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, output_grad: Tensor | None, kl_grad: Tensor | None, received_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        query, key, value, logits, lse, noisy_lse = ctx.saved_tensors
        spec: Spec = ctx.spec
        batch, heads, queries, keys = spec.sight.shape
        if output_grad is None:
            output_grad = torch.zeros_like(value[:, :, :1]).expand(-1, -1, queries, -1)
        grads = tuple(torch.empty_like(x) for x in (query, key, value))
        logits_grad = None if kl_grad is None else torch.zeros_like(logits)
        rows = _Rows(
            spec,
            {"lse": lse, "noisy_lse": noisy_lse, "kl_grad": kl_grad},
            {"logits": logits, "mean_grad": received_grad},
            sums=logits_grad is not None,
        )
        space = _Space(2, queries, heads, keys)
        for b in range(batch):
            q, k, v, o_grad = (x[b].float() for x in (query, key, value, output_grad))
            q, scaled_k = q * spec.scale, k * spec.scale
            k_grad, v_grad = (x.new_zeros(x.shape) for x in (k, v))
            for block, (weights, score_grad) in space.blocks():
                torch.bmm(q[:, block], k.transpose(1, 2), out=weights)
                torch.bmm(o_grad[:, block], v.transpose(1, 2), out=score_grad)
                sums = rows.run(b, block.start, weights, score_grad)
                if logits_grad is not None and sums is not None:
                    logits_grad[b] += sums
                grads[0][b, :, block] = torch.bmm(score_grad, scaled_k)
                k_grad.baddbmm_(score_grad.transpose(1, 2), q[:, block])
                v_grad.baddbmm_(weights.transpose(1, 2), o_grad[:, block])
            grads[1][b], grads[2][b] = k_grad, v_grad
        return *grads, logits_grad, None


class _Space:
    """Memory for the entries of row blocks, used again for every example."""

    def __init__(self, number: int, rows: int, heads: int, keys: int) -> None:
        self.rows, self.heads, self.keys = rows, heads, keys
        longest = next(row_blocks(rows, heads * keys)).stop
        self.memory = torch.empty(number, longest * heads * keys, dtype=torch.float32, device="cpu")

    def blocks(self) -> Iterator[tuple[slice, list[Tensor]]]:
        """Each block of rows, with (H, R, S) tensors for it."""
        for block in row_blocks(self.rows, self.heads * self.keys):
            shape = (self.heads, block.stop - block.start, self.keys)
            yield block, [part[: math.prod(shape)].view(shape) for part in self.memory]
