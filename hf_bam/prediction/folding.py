"""Many draws in one forward pass: the batch is repeated, as late as the model allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from transformers import PreTrainedModel

from ..layer import BamLayer

Inputs = dict[str, Any]

SHARES_PREFIX = {"albert", "bert", "distilbert", "electra", "roberta", "vit", "xlm-roberta"}
"""Model types whose forward needs nothing of its inputs after the layers, so that these can widen the batch."""


def draw(model: PreTrainedModel, inputs: Inputs, number: int, token_budget: int, share_prefix: bool = True) -> Inputs:
    """Output tensors of `number` forward passes with fresh noise, (number, B, ...) each.

    As many draws as `token_budget` allows go through the model at once: noise is independent between the rows of a
    batch, so a repeated batch follows the same law as repeated passes.
    """
    batch = next(iter(inputs.values())).shape[0]
    tokens = max(
        (inputs[name].numel() for name in ("input_ids", "decoder_input_ids") if name in inputs), default=batch
    )
    at_once = max(1, min(number, token_budget // tokens))
    shared = share_prefix and model.config.model_type in SHARES_PREFIX
    parts = []
    for start in range(0, number, at_once):
        copies = min(at_once, number - start)
        if shared:
            with widened(model, copies, batch):
                output = model(**inputs)
        else:
            output = model(**repeat_all(inputs, copies))
        parts.append({name: _split(value, copies) for name, value in output.items() if isinstance(value, Tensor)})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def repeat(tensor: Tensor, copies: int) -> Tensor:
    """(copies * B, ...): the whole batch, again and again."""
    return tensor.repeat(copies, *[1] * (tensor.dim() - 1))


def repeat_all(inputs: Any, copies: int) -> Any:
    """The same for every tensor in a structure."""
    return pytree.tree_map(lambda value: repeat(value, copies) if isinstance(value, Tensor) else value, inputs)


def _split(tensor: Tensor, copies: int) -> Tensor:
    return tensor.reshape(copies, -1, *tensor.shape[1:])


@contextmanager
def widened(model: nn.Module, copies: int, batch: int) -> Iterator[None]:
    """Repeats the batch where it enters the first stochastic layer; what lies before is computed once."""
    handles = []
    if copies > 1:
        for block, first_use in stochastic_blocks(model):
            handles.append(block.register_forward_pre_hook(_Widen(copies, batch, first_use), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def stochastic_blocks(model: nn.Module) -> list[tuple[nn.Module, int]]:
    """The layers from the first stochastic one on, each with the first of its uses that counts."""
    found: dict[str, int] = {}
    for path, module in model.named_modules():
        if isinstance(module, BamLayer) and (found or any(module.uses)):
            block = re.match(r".*?\.\d+(?=\.)", path)
            if block is not None:
                found.setdefault(block[0], module.uses.index(True) if any(module.uses) else 0)
    return [(model.get_submodule(path), use) for path, use in found.items()]


class _Widen:
    """Repeats the arguments of a layer that still have the batch's own size."""

    def __init__(self, copies: int, batch: int, first_use: int) -> None:
        self.copies, self.batch, self.remaining = copies, batch, first_use

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self.remaining > 0:
            self.remaining -= 1
            return None
        return pytree.tree_map(self._repeat, (args, kwargs))

    def _repeat(self, value: Any) -> Any:
        is_batch = isinstance(value, Tensor) and value.dim() >= 2 and value.shape[0] == self.batch
        return repeat(value, self.copies) if is_batch else value
