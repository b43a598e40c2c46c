"""Attention modules of a transformers model that can be patched, and those that cannot."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import CodeType

from torch import nn
from transformers import PreTrainedModel

from ..attention.interface import SPARSE
from .adapters import adapter_for
from .architectures import NO_TOKENS

MOST_PARTS = 3
"""Number of parts of a model that a message names."""


class UnsupportedModelError(ValueError):
    """Error for a model whose attention goes neither through transformers' attention interface nor through an adapter
    of hf_bam, nor through a graph layer that can be patched."""


@dataclass(frozen=True)
class Obstacle:
    """Attention module that cannot be patched.

    Attributes:
        path: its name within the model.
        kind: name of its class.
        reason: what prevents it, the rest of a sentence after its name.
    """

    path: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}) {self.reason}"


def is_reachable(cls: type[nn.Module]) -> bool:
    """Return whether attention modules of a class get Bayesian attention, by the interface or by an adapter."""
    return uses_interface(cls) or adapter_for(cls) is not None


def uses_interface(cls: type[nn.Module]) -> bool:
    """Return whether a method of the class looks its attention function up in transformers' table."""
    return any("ALL_ATTENTION_FUNCTIONS" in code.co_names for code in _methods(cls))


def _chooses_keys(cls: type[nn.Module]) -> bool:
    """Return whether a method of the class passes a choice of keys to its attention function, beside the mask."""
    return any(
        name in ((constant,) if isinstance(constant, str) else constant)
        for code in _methods(cls)
        if "ALL_ATTENTION_FUNCTIONS" in code.co_names
        for constant in code.co_consts
        if isinstance(constant, (str, tuple))
        for name in SPARSE
    )


def _methods(cls: type) -> Iterator[CodeType]:
    for base in cls.__mro__:
        if base in (nn.Module, PreTrainedModel):
            return
        for method in vars(base).values():
            code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
            if code is not None:
                yield code


def obstacles(model: PreTrainedModel) -> list[Obstacle]:
    """Return the attention modules of a model that cannot be patched, without those inside of others."""
    found: dict[str, Obstacle] = {}
    for path, module in model.named_modules():
        reason = None if is_within(path, found) else _problem(model, path, module)
        if reason is not None:
            found[path] = Obstacle(path, type(module).__name__, reason)
    return list(found.values())


def describe(left_out: list[Obstacle]) -> str:
    """Return the end of a sentence about modules that stay as they are."""
    first = [f"{o.path} ({o.kind}), which {o.reason}" for o in left_out[:MOST_PARTS]]
    more = len(left_out) - MOST_PARTS
    return "; ".join([*first, f"and {more} more"] if more > 0 else first)


def _problem(model: PreTrainedModel, path: str, module: nn.Module) -> str | None:
    """Return what prevents Bayesian attention in a module; None: nothing, or it is no attention."""
    cls = type(module)
    if hasattr(module, "sinks") and uses_interface(cls):
        return "has attention sinks, which take part in the softmax without being keys"
    if getattr(module, "indexer", None) is not None and _chooses_keys(cls):
        return "chooses the keys of its queries by an indexer, outside of the attention mask"
    if (adapter := adapter_for(cls)) is not None:
        return adapter.problem(module)
    looks_like_attention = re.search(r"Attention|Attn", cls.__name__) is not None
    if looks_like_attention and not _is_or_is_beside_reachable(model, path):
        return "computes its attention without transformers' attention interface"
    return None


def _is_or_is_beside_reachable(model: nn.Module, path: str) -> bool:
    """Return whether the module, one inside it or one around it can be reached."""
    parts = path.split(".")
    around = [model.get_submodule(".".join(parts[:i])) for i in range(1, len(parts))]
    return any(is_reachable(type(m)) for m in (*model.get_submodule(path).modules(), *around))


def check_reachable(model: PreTrainedModel, skipped: Collection[str] = ()) -> None:
    """Raise `UnsupportedModelError` for attention that cannot be patched, before anything is changed.

    Args:
        skipped: names of modules that stay as they are.
    """
    if model.config.model_type in NO_TOKENS:
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be patched: its attention runs over "
            f"{NO_TOKENS[model.config.model_type]}, so that its KL cannot exclude padding."
        )
    left = [obstacle for obstacle in obstacles(model) if obstacle.path not in skipped]
    if left:
        raise UnsupportedModelError(f"{type(model).__name__} cannot be patched: {left[0]}.{way_out(model, left)}")


def way_out(model: PreTrainedModel, left: list[Obstacle]) -> str:
    """Return the end of an error: the parts of the model that can be patched, if there are any."""
    paths = [obstacle.path for obstacle in left]
    if not any(is_reachable(type(m)) and not is_within(path, paths) for path, m in model.named_modules()):
        return ""
    calls = [f"hf_bam.patch(model.{path})" for path in reachable_parts(model, paths)[:MOST_PARTS]]
    parts = f"Patch a part of the model, {' or '.join(calls)}, or" if calls else "Patch"
    return f" {parts} the model without such modules: hf_bam.patch(model, strict=False)."


def reachable_parts(model: PreTrainedModel, obstacles: Collection[str]) -> list[str]:
    """Return the names of the largest models inside a model all of whose attention can be patched."""
    found: list[str] = []
    for path, module in model.named_modules():
        if not path or not isinstance(module, PreTrainedModel) or is_within(path, found):
            continue
        has_attention = any(is_reachable(type(inner)) for inner in module.modules())
        if has_attention and not any(is_within(obstacle, [path]) for obstacle in obstacles):
            found.append(path)
    return found


def is_within(path: str, others: Collection[str]) -> bool:
    """Return whether a module is one of others or inside one of them, by their names."""
    return any(path == other or path.startswith(f"{other}.") for other in others)
