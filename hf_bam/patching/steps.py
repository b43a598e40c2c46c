"""Counting optimizer steps, for the annealing of the KL weight."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

BUFFER = "bam_step"

_watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def watch(model: nn.Module) -> None:
    """Counts the steps of whatever optimizer trains the model."""
    _watched.add(model)


def add_counter(model: nn.Module) -> None:
    """The count is a buffer, so that it is saved and resumed with the weights."""
    device = next(model.parameters()).device
    model.register_buffer(BUFFER, torch.zeros((), dtype=torch.int64, device=device))
    watch(model)


def remove_counter(model: nn.Module) -> None:
    delattr(model, BUFFER)
    _watched.discard(model)


def step_of(model: nn.Module) -> Tensor:
    return model.get_buffer(BUFFER)


def _count(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for model in list(_watched):
        # One parameter stands for the model, so that two optimizers for its parts do not count twice.
        first = next((parameter for parameter in model.parameters() if parameter.requires_grad), None)
        if id(first) in trained:
            step_of(model).add_(1)


register_optimizer_step_post_hook(_count)
