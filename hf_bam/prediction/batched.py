"""Batched sampling: several samples in one forward pass over an expanded batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from transformers import PreTrainedModel

from ..attention.noise import derive
from ..patching.expansion import repeat

Inputs = dict[str, Any]
Noise = Callable[[Tensor, int], AbstractContextManager[Any]]
"""Context of a random forward pass, from the seeds of the rows and the number by which the model expands its batch."""


def draw(
    model: PreTrainedModel,
    inputs: Inputs,
    number: int,
    token_budget: int,
    seeds: Tensor,
    noise: Noise,
    *,
    first: int = 0,
    share_prefix: bool = False,
) -> Inputs:
    """Return the output tensors of `number` samples of a batch, (number, B, ...) each.

    As many samples as `token_budget` allows go through the model at once. The noise of an input is a function of its
    seed and of the index of the sample, so neither the budget nor the rest of the batch changes it.

    Args:
        seeds: (B,) int64, one for each input.
        first: index of the first sample.
        share_prefix: compute the layers before the first stochastic one once for all samples; the model expands its
            batch there.
    """
    at_once = max(1, min(number, token_budget // max(1, tokens_of(model, inputs))))
    parts = []
    for start in range(first, first + number, at_once):
        copies = min(at_once, first + number - start)
        rows = sample_seeds(seeds, torch.arange(start, start + copies))
        with noise(rows, copies if share_prefix else 1):
            output = model(**inputs if share_prefix else repeat_all(inputs, copies))
        parts.append({name: _split(value, copies) for name, value in output.items() if isinstance(value, Tensor)})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def tokens_of(model: PreTrainedModel, inputs: Inputs) -> int:
    """Return the number of tokens of a batch, or of patches of its images."""
    texts = [inputs[name].numel() for name in ("input_ids", "decoder_input_ids") if name in inputs]
    if texts or "pixel_values" not in inputs:
        return max(texts, default=next(iter(inputs.values())).shape[0])
    number, _, height, width = inputs["pixel_values"].shape
    size = getattr(model.config, "patch_size", None) or 16
    return int(number * max(1, height // size) * max(1, width // size))


def sample_seeds(seeds: Tensor, indices: Tensor) -> Tensor:
    """Return the seeds of the samples with these indices for every input, (copies * B,)."""
    return derive(seeds, indices[:, None]).flatten()


def repeat_all(inputs: Any, copies: int) -> Any:
    """Return a structure in which every tensor is repeated along its first dimension, (copies * B, ...)."""
    return pytree.tree_map(lambda value: repeat(value, copies) if isinstance(value, Tensor) else value, inputs)


def _split(tensor: Tensor, copies: int) -> Tensor:
    return tensor.reshape(copies, -1, *tensor.shape[1:])
