"""Counting optimizer steps, for the annealing of the KL weight."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

BUFFER = "bam_step"

_watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()
_prior_steps: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
"""Steps of an optimizer that trains the model since one was seen that trains its prior."""


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
        _look_for_prior(model, trained, own=id(first) in trained)
        if id(first) in trained:
            step_of(model).add_(1)


def _look_for_prior(model: nn.Module, trained: set[int], own: bool) -> None:
    """Raises at the second step of the model's optimizer if no optimizer has the parameters of the prior."""
    prior = {id(p) for name, p in model.named_parameters() if ".bam." in f".{name}" and p.grad is not None}
    if prior & trained:
        _prior_steps[model] = 0
    elif prior and own:
        _prior_steps[model] = _prior_steps.get(model, 0) + 1
        if _prior_steps[model] == 2:
            raise RuntimeError(
                "The prior network gets a gradient, but no optimizer has its parameters: the optimizer was made "
                "before hf_bam.patch(model). Patch the model first, then make the optimizer; or "
                "optimizer.add_param_group({'params': [p for n, p in model.named_parameters() if '.bam.' in n]})."
            )


register_optimizer_step_post_hook(_count)
