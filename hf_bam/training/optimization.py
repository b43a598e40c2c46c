"""AdamW for a patched model, and the schedule of its learning rate."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from .recipe import Recipe

PRIOR = re.compile(r"(^|\.)bam\.prior\.")
FUSED = frozenset({"cpu", "cuda", "mps", "xpu"})
"""Devices for which torch has a fused AdamW."""


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the trainable parameters by learning rate and decay.

    Biases and norms, which have one dimension, are not decayed.
    """
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            key = PRIOR.search(name) is not None, parameter.ndim > 1
            groups.setdefault(key, []).append(parameter)
    if not groups:
        raise ValueError("The model has no parameter that requires a gradient; there is nothing to train.")
    rates = {False: recipe.learning_rate, True: recipe.prior_learning_rate or recipe.learning_rate}
    return [
        {
            "params": parameters,
            "lr": rates[prior],
            "initial_lr": rates[prior],
            "weight_decay": recipe.weight_decay if decays else 0.0,
        }
        for (prior, decays), parameters in sorted(groups.items())
    ]


def make_optimizer(model: nn.Module, recipe: Recipe) -> AdamW:
    """Return AdamW, fused where torch has it."""
    groups = parameter_groups(model, recipe)
    tensors: list[torch.Tensor] = [parameter for group in groups for parameter in group["params"]]
    return AdamW(groups, fused=all(tensor.device.type in FUSED for tensor in tensors))


def warmup_steps(recipe: Recipe, total: int) -> int:
    """Return the number of warmup steps, which the recipe gives as a number or as a fraction of all steps."""
    steps = recipe.warmup_steps if recipe.warmup_steps >= 1 else recipe.warmup_steps * total
    return min(math.ceil(steps), total)


def learning_rate_factor(step: int, warmup: int, total: int, tail: int = 0) -> float:
    """Return the learning rate of a step (from 0) relative to its peak: linear warmup, then linear decay to 0.

    Args:
        tail: number of steps, at the end, that keep the rate that they begin with.
    """
    if step < warmup:
        return (step + 1) / warmup
    return min(1.0, (total - min(step, total - tail)) / max(1, total - warmup))


def set_learning_rate(optimizer: Optimizer, factor: float) -> None:
    """Multiply the peak learning rates; the factor depends on the step alone, so no scheduler has to be saved."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
