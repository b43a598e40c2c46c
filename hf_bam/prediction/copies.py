"""Copies of a model that share its tensors, for modes that the model itself should not be put into."""

from __future__ import annotations

from types import MethodType
from typing import Any, TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def shared_copy(model: Model) -> Model:
    """A copy of the modules of a model, with their flags and numbers; parameters, buffers and hooks are shared."""
    copies: dict[int, nn.Module] = {}
    return _shared_copy(model, copies)


def _shared_copy(module: Model, copies: dict[int, nn.Module]) -> Model:
    if id(module) in copies:
        return copies[id(module)]  # type: ignore[return-value]
    other: Any = object.__new__(type(module))
    copies[id(module)] = other
    other.__dict__.update(module.__dict__)
    other.__dict__["_modules"] = {
        name: None if child is None else _shared_copy(child, copies) for name, child in module._modules.items()
    }
    for name, value in module.__dict__.items():
        if isinstance(value, MethodType) and value.__self__ is module:  # Accelerate puts such a forward there
            other.__dict__[name] = MethodType(value.__func__, other)
    return other
