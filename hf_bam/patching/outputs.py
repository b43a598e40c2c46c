"""Model outputs with further fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from torch import Tensor
from transformers.utils import ModelOutput

FIELDS = ("task_loss", "kl", "kl_loss", "alignment")
"""Terms of the loss in training; sample of a latent alignment, (B, T, S) weights, within `hf_bam.sampling`."""

_made: dict[type, type] = {}


def with_fields(cls: type[ModelOutput]) -> type[ModelOutput]:
    """Return a subclass of an output class with the fields of `FIELDS`.

    A real dataclass rather than loose entries: DDP takes outputs apart and rebuilds them by their fields.
    """
    if cls not in _made:
        fields = [(name, Tensor | None, dataclasses.field(default=None)) for name in FIELDS]
        name = f"Bam{cls.__name__}"
        _made[cls] = dataclasses.make_dataclass(name, fields, bases=(cls,), namespace={"__module__": __name__})
        globals()[name] = _made[cls]  # so that pickle finds it
    return _made[cls]


def prepare_outputs(forward: Callable[..., Any]) -> None:
    """Make the output classes that a forward is annotated with, because torch.compile cannot make a class."""
    try:
        returned = get_type_hints(forward).get("return")
    except (NameError, TypeError):
        return  # an annotation that cannot be read; the class is made when the first output comes
    for cls in get_args(returned) or (returned,):
        if isinstance(cls, type) and issubclass(cls, ModelOutput):
            with_fields(cls)


def add_kl(output: Any, kl: Tensor, kl_loss: Tensor) -> Any:
    """Add `kl_loss`, the weighted KL, to the loss of a model output, and the terms as fields.

    A tuple keeps its length: the KL is added to the loss, its first entry, if there is one.
    """
    task_loss = own_loss(output)
    loss = None if task_loss is None else task_loss + kl_loss.to(task_loss.device)
    if isinstance(output, ModelOutput):
        terms = {"kl": kl, "kl_loss": kl_loss, **({} if loss is None else {"task_loss": task_loss, "loss": loss})}
        return with_fields(type(output))(**{**output, **terms})
    return output if loss is None else (loss, *output[1:])


def own_loss(output: Any) -> Tensor | None:
    """Return the loss of a model output or of a tuple; None where there is none."""
    if isinstance(output, ModelOutput):
        return output.get("loss")
    is_loss = isinstance(output, tuple) and bool(output) and isinstance(output[0], Tensor) and output[0].dim() == 0
    return output[0] if is_loss else None
