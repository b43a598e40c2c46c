"""Copies of a model in another mode that share its tensors."""

from __future__ import annotations

from collections import OrderedDict
from types import MethodType
from typing import Any, TypeVar

from torch import nn
from transformers import PreTrainedModel

from ..attention.layer import BamLayer
from ..patching.architectures import DROPOUT_ATTRIBUTES

Model = TypeVar("Model", bound=nn.Module)
HOOKS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs")
"""Dictionaries of a module with its forward hooks; transformers adds some when hidden states are asked for."""


def shared_copy(model: Model) -> Model:
    """Return a copy of the modules of a model with flags and hooks of their own; parameters and buffers are shared.

    The copy of a compiled model is not compiled: compiled code belongs to the modules that it was made from.
    """
    copies: dict[int, nn.Module] = {}
    return _shared_copy(getattr(model, "_orig_mod", model), copies)


def _shared_copy(module: Model, copies: dict[int, nn.Module]) -> Model:
    if id(module) in copies:
        return copies[id(module)]  # type: ignore[return-value]
    other: Any = object.__new__(type(module))
    copies[id(module)] = other
    other.__dict__.update(module.__dict__)
    other.__dict__.pop("_compiled_call_impl", None)
    other.__dict__["_modules"] = {
        name: None if child is None else _shared_copy(child, copies) for name, child in module._modules.items()
    }
    for name in HOOKS:
        other.__dict__[name] = OrderedDict(module.__dict__[name])
    for name, value in module.__dict__.items():
        if isinstance(value, MethodType) and value.__self__ is module:  # Accelerate puts such a forward there
            other.__dict__[name] = MethodType(value.__func__, other)
    return other


def in_evaluation(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model if all of it is in evaluation mode, or a copy that is."""
    if not any(module.training for module in model.modules()):
        return model
    return shared_copy(model).eval()


def dropouts(model: nn.Module) -> list[tuple[nn.Module, str, float]]:
    """Return all dropout rates as (module, attribute, rate).

    They are attributes of `nn.Dropout` modules, and numbers that layers pass to the dropout function.
    """
    rates: list[tuple[nn.Module, str, float]] = []
    for module in model.modules():
        for name in ("p",) if isinstance(module, nn.Dropout) else DROPOUT_ATTRIBUTES:
            if isinstance(rate := getattr(module, name, None), float):
                rates.append((module, name, rate))
    return rates


def with_dropout(model: PreTrainedModel, rate: float | None) -> PreTrainedModel:
    """Return a copy of a model with active dropout in evaluation mode, at its own rates or at one for all.

    A layer drops out when its own training flag is set, so the flags of all layers are set. Those of the Bayesian
    attention and of the model itself are not, so that these stay in evaluation mode.
    """
    model = shared_copy(model)
    for module, name, own_rate in dropouts(model):
        setattr(module, name, own_rate if rate is None else rate)
    bayesian = {id(part) for module in model.modules() if isinstance(module, BamLayer) for part in module.modules()}
    for module in model.modules():
        has_statistics = isinstance(module, nn.modules.batchnorm._BatchNorm)
        module.training = not (module is model or id(module) in bayesian or has_statistics)
    return model
