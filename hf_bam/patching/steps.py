"""Count of optimizer steps, for the annealing of the KL weight, and checks after each step."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from ..objective import annealed
from .backward import forget
from .state import ATTRIBUTE

BUFFER = "bam_step"

_watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()
_prior_steps: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
"""Steps of an optimizer that trains the model since the last one that trains its prior."""


def watch(model: nn.Module) -> None:
    """Count the steps of the optimizers that train the model."""
    _watched.add(model)


def add_counter(model: nn.Module) -> None:
    """Add the count as a buffer, so that it is saved and resumed with the weights."""
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
        own = id(first) in trained
        _look_for_prior(model, trained, own)
        _look_for_kl(model, optimizer, trained, own)
        if own:
            step_of(model).add_(1)


def _look_for_prior(model: nn.Module, trained: set[int], own: bool) -> None:
    """Raise at the second step of the model's optimizer if no optimizer has the parameters of the prior."""
    layers = vars(model)[ATTRIBUTE].layers
    prior = {id(p) for layer in layers for p in layer.parameters() if p.grad is not None}
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


def _look_for_kl(model: nn.Module, optimizer: Optimizer, trained: set[int], own: bool) -> None:
    """Raise if the model was trained, but the KL of none of its forwards since the last step.

    Args:
        own: whether the optimizer has the first parameter of the model; otherwise it may have others.
    """
    record = vars(model)[ATTRIBUTE]
    anything = any(p.grad is not None for group in optimizer.param_groups for p in group["params"])
    if not anything or not (own or any(id(p) in trained for p in model.parameters() if p.requires_grad)):
        return
    forwards, record.tally.forwards = record.tally.forwards, 0
    reached, record.tally.trained = record.tally.trained, 0
    lost, record.runtime.lost_terms = record.runtime.lost_terms, 0
    forget(record.tally)
    if not reached and lost and not forwards:
        raise RuntimeError(
            f"The KL of this {type(model).__name__} was not trained: its layers were called one by one. Call the "
            "model, model(...), or train it without a KL: hf_bam.patch(model, prior='none')."
        )
    if not reached and (forwards or _compiled_without_kl(model, record)):
        raise RuntimeError(
            f"The KL of this {type(model).__name__} was not trained: the loss that was differentiated has no part in "
            "the outputs of its forward, or the model is compiled. Add the KL to the loss: "
            "loss = loss + hf_bam.kl_loss(model)."
        )


def _compiled_without_kl(model: nn.Module, record: Any) -> bool:
    """Return whether a compiled model was trained and its prior was not; only the first such step is checked."""
    if record.runtime.kl_loss is None or record.checked:
        return False
    config, step = record.config, step_of(model)
    if not annealed(config.kl_weight, config.annealing, config.annealing_rate, step).item():
        return False
    record.checked = True
    prior = [p for name, p in model.named_parameters() if ".bam." in f".{name}" and p.requires_grad]
    return bool(prior) and not any(p.grad is not None and bool(p.grad.any()) for p in prior)


@functools.cache
def install() -> None:
    """Check every step of every optimizer; the hook is registered once."""
    register_optimizer_step_post_hook(_count)
