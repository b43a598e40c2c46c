"""Expansion of the batch where it enters the first stochastic layer: earlier layers run once for all samples."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from ..attention.frame import Frame
from ..attention.layer import BamLayer
from ..attention.runtime import Runtime


def install(model: nn.Module, runtime: Runtime) -> list[RemovableHandle]:
    """Let every layer from the first stochastic one on repeat its arguments when the sampling mode asks for it."""
    return [
        block.register_forward_pre_hook(
            partial(expand, runtime=runtime, block=number, first_use=use), with_kwargs=True
        )
        for number, (block, use) in enumerate(stochastic_blocks(model))
    ]


def stochastic_blocks(model: nn.Module) -> list[tuple[nn.Module, int]]:
    """Return the layers from the first stochastic one on, each with the first of its stochastic uses."""
    found: dict[str, int] = {}
    for path, module in model.named_modules():
        if isinstance(module, BamLayer) and (found or any(module.uses)):
            block = re.match(r".*?\.\d+(?=\.)", path)
            if block is not None:
                found.setdefault(block[0], module.uses.index(True) if any(module.uses) else 0)
    return [(model.get_submodule(path), use) for path, use in found.items()]


def expand(module: nn.Module, args: Any, kwargs: Any, *, runtime: Runtime, block: int, first_use: int) -> Any:
    """Repeat the arguments of a layer that still have the size of the batch, (B, ...) to (copies * B, ...)."""
    frame: Frame | None = runtime.frame
    sampling = None if frame is None else frame.sampling
    if frame is None or sampling is None or sampling.rows is None or sampling.copies == 1:
        return None
    if frame.next_use(-1 - block) < first_use:
        return None
    batch, copies = len(sampling.rows) // sampling.copies, sampling.copies

    def repeated(value: Any) -> Any:
        is_batch = isinstance(value, Tensor) and value.dim() >= 2 and value.shape[0] == batch
        return repeat(value, copies) if is_batch else value

    return pytree.tree_map(repeated, (args, kwargs))


def repeat(tensor: Tensor, copies: int) -> Tensor:
    """Return the whole batch several times, (copies * B, ...)."""
    return tensor.repeat(copies, *[1] * (tensor.dim() - 1))
