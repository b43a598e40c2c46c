"""AdamW for a patched model, and the course of its learning rate."""

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
    """Trainable parameters by learning rate and decay: biases and norms, which have one dimension, are not decayed."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            key = PRIOR.search(name) is not None, parameter.ndim > 1
            groups.setdefault(key, []).append(parameter)
    if not groups:
        raise ValueError("The model has no parameter that requires a gradient; there is nothing to train.")
    prior_lr = recipe.learning_rate if recipe.prior_learning_rate is None else recipe.prior_learning_rate
    return [
        {
            "params": parameters,
            "lr": prior_lr if prior else recipe.learning_rate,
            "initial_lr": prior_lr if prior else recipe.learning_rate,
            "weight_decay": recipe.weight_decay if decays else 0.0,
        }
        for (prior, decays), parameters in sorted(groups.items())
    ]


def make_optimizer(model: nn.Module, recipe: Recipe) -> AdamW:
    groups = parameter_groups(model, recipe)
    tensors: list[torch.Tensor] = [parameter for group in groups for parameter in group["params"]]
    return AdamW(groups, fused=all(tensor.device.type in FUSED for tensor in tensors))


def warmup_steps(recipe: Recipe, total: int) -> int:
    """Steps of warm-up: as many as the recipe says, or the share that it says."""
    steps = recipe.warmup_steps if recipe.warmup_steps >= 1 else recipe.warmup_steps * total
    return min(math.ceil(steps), total)


def rate(step: int, warmup: int, total: int) -> float:
    """The learning rate of a step (from 0) as a share of the highest: it rises for `warmup` steps and falls to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return (total - step) / max(1, total - warmup)


def set_rate(optimizer: Optimizer, share: float) -> None:
    """A function of the step alone, so there is no scheduler whose state would have to be saved."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * share
