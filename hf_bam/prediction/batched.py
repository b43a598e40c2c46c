"""Many draws in one forward pass: the batch is repeated, as late as the model allows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from transformers import PreTrainedModel

from ..attention.noise import derive
from ..attention.runtime import Sampling
from ..patching.architectures import SHARES_PREFIX
from ..patching.expansion import repeat
from ..patching.state import patch_of

Inputs = dict[str, Any]
Noise = Callable[[Tensor], AbstractContextManager[Any]]


def draw(
    model: PreTrainedModel,
    inputs: Inputs,
    number: int,
    token_budget: int,
    seeds: Tensor | None = None,
    *,
    first: int = 0,
    noise: Noise | None = None,
    attention: bool = True,
    share_prefix: bool = True,
) -> Inputs:
    """Output tensors of `number` forward passes with fresh noise, (number, B, ...) each.

    As many draws as `token_budget` allows go through the model at once. The noise of an input is a function of its
    seed and of the number of the draw, so that neither the budget nor the rest of the batch changes it.

    Args:
        seeds: (B,) int64, one for each input; None: no sampling.
        first: the number of the first draw.
        noise: a context that makes more random than the attention; it takes the seeds of the rows.
        attention: whether the attention of the model, which is patched then, is sampled.
        share_prefix: compute the layers before the first stochastic one once for all draws.
    """
    batch = next(iter(inputs.values())).shape[0]
    tokens = max(
        (inputs[name].numel() for name in ("input_ids", "decoder_input_ids") if name in inputs), default=batch
    )
    at_once = max(1, min(number, token_budget // max(1, tokens)))
    parts = []
    for start in range(0, number, at_once):
        copies = min(at_once, number - start)
        rows = None if seeds is None else sample_seeds(seeds, torch.arange(first + start, first + start + copies))
        shared = share_prefix and attention and noise is None and model.config.model_type in SHARES_PREFIX
        with ExitStack() as stack:
            if rows is not None and attention:
                sampling = Sampling(rows=rows, copies=copies if shared else 1)
                stack.enter_context(patch_of(model).runtime.sample(sampling))
            if rows is not None and noise is not None:
                stack.enter_context(noise(rows))
            output = model(**inputs if shared and rows is not None else repeat_all(inputs, copies))
        parts.append({name: _split(value, copies) for name, value in output.items() if isinstance(value, Tensor)})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def sample_seeds(seeds: Tensor, numbers: Tensor) -> Tensor:
    """(copies * B,) the seeds of some draws of every input."""
    return derive(seeds, numbers[:, None]).flatten()


def repeat_all(inputs: Any, copies: int) -> Any:
    """(copies * B, ...) for every tensor in a structure: the whole batch, again and again."""
    return pytree.tree_map(lambda value: repeat(value, copies) if isinstance(value, Tensor) else value, inputs)


def _split(tensor: Tensor, copies: int) -> Tensor:
    return tensor.reshape(copies, -1, *tensor.shape[1:])
