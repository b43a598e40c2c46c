"""Models with another level of attention noise than the one that they were trained with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from ..families import Family
from ..patching.state import bam_modules
from ..prediction.copies import shared_copy
from ..prediction.posthoc import LEVELS

POWERS = {"k": -1, "sigma": 1, "counts": -2}
"""Power of the noise level that a setting is multiplied by: the standard deviation of log weights is proportional to
`1 / k`, `sigma` and, in the limit of many, `1 / sqrt(counts)`."""


def has_level(family: Family) -> bool:
    """Return whether the noise of a family has one setting for its level."""
    return any(hasattr(family, name) for name, _ in LEVELS.values())


def scaled(family: Any, level: float) -> Any:
    """Return a family whose log weights have `level` times the standard deviation."""
    name = next(name for name, _ in LEVELS.values() if hasattr(family, name))
    value = getattr(family, name)
    changed = value * level ** POWERS[name]
    return replace(family, **{name: max(1, round(changed)) if isinstance(value, int) else changed})


def with_noise(model: PreTrainedModel, level: float) -> PreTrainedModel:
    """Return a copy of a patched model that shares its tensors and has `level` times its noise; 1: the model."""
    if level == 1:
        return model
    other = shared_copy(model)
    for _, layer in bam_modules(other):
        layer.family = scaled(layer.family, level)
    return other
