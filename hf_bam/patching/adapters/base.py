"""Base of the adapters, and the shapes and masks that they have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...attention.interface import bam_attention_forward
from ...attention.method import Method


class Adapter(Method):
    """Attention code of a module: that of its class in mean mode, and the attention function otherwise.

    Attributes:
        sample: method `sample(module, ...)` with the arguments of the class's method; it returns what that returns,
            with sampled attention.
    """

    sample: Callable[..., Any]

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.argument_names = tuple(inspect.signature(self.plain()).parameters)[1:]

    @classmethod
    def problem(cls, module: nn.Module) -> str | None:
        """Return what prevents Bayesian attention in a module of this class, after its name; None: nothing."""
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        layer = self.layer
        if layer is None or not layer.is_stochastic(0):
            return self.plain()(self.module, *args, **kwargs)
        return self.sample(self.module, **dict(zip(self.argument_names, args, strict=False)), **kwargs)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, T, H, D_v) and the weights, if they were built; without a mask all keys are seen.

        Args:
            query: (B, H, T, D).
            key: (B, H or fewer, S, D).
            value: (B, H or fewer, S, D_v).
            mask: (B or 1, H or 1, T or 1, at least S), boolean or additive.
            options: keywords of the attention function.
        """
        return bam_attention_forward(self.module, query, key, value, mask, **{"is_causal": False, **options})


def split_heads(states: Tensor, heads: int) -> Tensor:
    """Return states (B, T, H * D) as (B, H, T, D)."""
    return states.view(*states.shape[:-1], heads, -1).transpose(1, 2)


def unfold_heads(states: Tensor, heads: int) -> Tensor:
    """Return states (B * H, ...) as (B, H, ...)."""
    return states.view(-1, heads, *states.shape[1:])


def with_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Return an additive mask with a bias of the scores in it, (B or 1, H or 1, T or 1, S).

    A bias without a gradient leaves the choice of a backend free; a learned one needs the matrix.
    """
    if mask is None or bias is None:
        return mask if bias is None else bias
    if mask.dtype.is_floating_point:
        return mask[..., : bias.shape[-1]] + bias
    return bias.masked_fill(~mask.bool(), torch.finfo(bias.dtype).min)
