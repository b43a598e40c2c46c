"""Fields of settings dataclasses: one way to declare, check, describe and read them.

A field declares its type by its annotation and its range or choices by `setting`. The string below a field describes
it; `--help` and the reference show the same string.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
import re
import reprlib
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

Settings = TypeVar("Settings")
RANGE, CHOICES = "range", "choices"
"""Keys of a field's metadata."""
LARGEST = 2**63 - 1
"""Largest whole number, that of torch and of files."""

KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "text (in quotes, where it looks like a number)"),
    "bool": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "int": (lambda value: is_number(value) and isinstance(value, int) and abs(value) <= LARGEST, "a whole number"),
    "float": (lambda value: is_number(value) and abs(value) <= sys.float_info.max, "a number"),
    "dict[str, Any]": (lambda value: isinstance(value, Mapping), "a mapping of names to values"),
    "None": (lambda value: value is None, "none"),
}
"""A test and a name for the values of a type."""


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers that a field accepts: `least <= value <= most`, and `value > above`."""

    above: float = -math.inf
    least: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.above < value < self.below and self.least <= value <= self.most

    def __str__(self) -> str:
        parts = [f" above {self.above:.10g}"] if self.above > -math.inf else []
        parts += [f", {self.least:.10g} or above"] if self.least > -math.inf else []
        parts += [f" and below {self.below:.10g}"] if self.below < math.inf else []
        parts += [f", {self.most:.10g} at most"] if self.most < math.inf else []
        return "".join(parts)


def setting(default: Any = dataclasses.MISSING, *, choices: Collection[str] = (), **limits: float) -> Any:
    """Return a dataclass field with a range or with choices.

    Args:
        choices: names, or a registry that may grow.
        limits: `above`, `least`, `most` and `below`, the bounds of a number.
    """
    metadata: dict[str, Any] = {CHOICES: choices} if choices else {}
    return dataclasses.field(default=default, metadata=metadata | ({RANGE: Range(**limits)} if limits else {}))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Shown(reprlib.Repr):
    """Representation of any value in a few words: nesting, sizes and digits have no limit in a file."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 80
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 10

    def repr_int(self, value: int, level: int) -> str:
        return super().repr_int(value, level) if abs(value) <= LARGEST else f"a number of {value.bit_length()} bits"


shown = _Shown().repr
"""Return a value for an error message, shortened."""


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the content of JSON; a nesting beyond Python's limit is a `ValueError`, as all other errors in it are."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def type_name(item: dataclasses.Field[Any]) -> str:
    """The annotation of a field as it is written: "int", "str | None"."""
    return item.type.__name__ if isinstance(item.type, type) else str(item.type)


def check_fields(settings: Any, owner: str | None = None) -> None:
    """Raise `ValueError` for the first field of a dataclass whose value has another type, range or choice.

    A whole number becomes a float where the annotation says so, and "none" becomes None where that is allowed.

    Args:
        owner: name of the settings in the error; that of their class by default.
    """
    for item in (item for item in dataclasses.fields(settings) if item.init):
        value = checked(item, getattr(settings, item.name), owner or type(settings).__name__)
        object.__setattr__(settings, item.name, value)


def checked(item: dataclasses.Field[Any], value: Any, owner: str = "") -> Any:
    """Return the value as the field keeps it, or raise an error that names the field, the value and what it may be."""
    types = type_name(item).split(" | ")
    if isinstance(value, str) and value == "none" and "None" in types and "str" not in types:
        value = None
    if not _fits(item, value, types):
        prefix = f"{owner}." if owner else ""
        raise ValueError(f"{prefix}{item.name}={shown(value)} is not valid; it must be {wanted(item)}.")
    return float(value) if "float" in types and is_number(value) else value


def _fits(item: dataclasses.Field[Any], value: Any, types: list[str]) -> bool:
    if CHOICES in item.metadata:
        return any(value == choice for choice in item.metadata[CHOICES])
    kinds = [KINDS[name] for name in types if name in KINDS]
    if len(kinds) == len(types) and not any(test(value) for test, _ in kinds):
        return False
    return RANGE not in item.metadata or not is_number(value) or value in item.metadata[RANGE]


def wanted(item: dataclasses.Field[Any]) -> str:
    """The values that a field accepts, in words."""
    if CHOICES in item.metadata:
        return "one of " + ", ".join(map(repr, item.metadata[CHOICES]))
    limits = item.metadata.get(RANGE, "")
    names = [name for name in type_name(item).split(" | ") if name in KINDS]
    return ", or ".join(KINDS[name][1] + (str(limits) if name in ("int", "float") else "") for name in names)


def from_fields(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Build settings from some of their fields; unknown names are an error that lists the fields."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise ValueError(f"{shown(name)} is not a field of {cls.__name__}; the fields are {', '.join(names)}.")
    return cls(**values)


@cache
def describe(cls: type) -> dict[str, str]:
    """Return the description of each field: the string below it, or its line under `Attributes:` in the docstring.

    Fields of base classes are included.
    """
    described: dict[str, str] = {}
    for base in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        described |= _own_descriptions(base)
    return described


def _own_descriptions(cls: type) -> dict[str, str]:
    described = _attributes_section(inspect.cleandoc(cls.__doc__ or ""))
    (body,) = (
        node.body for node in ast.parse(textwrap.dedent(inspect.getsource(cls))).body if isinstance(node, ast.ClassDef)
    )
    for item, following in pairwise(body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is_string(following):
            described[item.target.id] = " ".join(ast.literal_eval(following.value).split())  # type: ignore[attr-defined]
    return described


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _attributes_section(docstring: str) -> dict[str, str]:
    _, _, section = docstring.partition("Attributes:\n")
    section = re.split(r"\n(?=\S)", section)[0]
    entries = re.split(r"^ {4}(?=\w+:)", section, flags=re.MULTILINE)[1:]
    pairs = (entry.split(":", 1) for entry in entries)
    return {name: " ".join(text.split()) for name, text in pairs}
