"""Types of the fields of settings, from their annotations: one check for all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "text (in quotes, where it looks like a number)"),
    "bool": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: is_number(value) and math.isfinite(value), "a number"),
    "dict[str, Any]": (lambda value: isinstance(value, Mapping), "a mapping of names to values"),
    "None": (lambda value: value is None, "none (null in YAML)"),
}
"""What a value of a type is, and what it is called."""


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def type_name(item: dataclasses.Field[Any]) -> str:
    """The annotation of a field as it is written: "int", "str | None"."""
    return item.type.__name__ if isinstance(item.type, type) else str(item.type)


def check_field(item: dataclasses.Field[Any], value: Any) -> None:
    """Raises an error that names the field, its value and what it may be; annotations that are not known pass."""
    kinds = [KINDS.get(part) for part in type_name(item).split(" | ")]
    known = [kind for kind in kinds if kind is not None]
    if len(known) == len(kinds) and not any(fits(value) for fits, _ in known):
        raise ValueError(f"{item.name}={value!r} is not valid; it must be {' or '.join(words for _, words in known)}.")


def check_fields(settings: Any) -> None:
    """Checks all fields of a dataclass."""
    for item in dataclasses.fields(settings):
        check_field(item, getattr(settings, item.name))
