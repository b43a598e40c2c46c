"""What the fields of a dataclass say of themselves, so that options need not be described twice."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Any

from ..tasks import TASKS
from ..tasks import __name__ as tasks_package
from ..tasks.base import Task
from ..tasks.fields import is_number, type_name


def task_class(name: str) -> type[Task]:
    """The class of a task in the registry, whose fields are its options."""
    if name not in TASKS:
        raise ValueError(f"task_name={name!r} is not known; choose one of {', '.join(TASKS)}.")
    factory: Any = TASKS[name]
    if isinstance(factory, partial):
        module, kind = factory.args
        factory = getattr(import_module(f".{module}", tasks_package), kind)
    return factory


def option_fields(name: str) -> list[dataclasses.Field[Any]]:
    """The options of a task: the fields that its entry in the registry leaves open."""
    fixed = getattr(TASKS.get(name), "keywords", {})
    return [item for item in dataclasses.fields(task_class(name)) if item.name not in fixed]  # type: ignore[arg-type]


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task, or an error that says which there are. A number becomes text where text is wanted."""
    fields = {item.name: item for item in option_fields(name)}
    for option in options:
        if option not in fields:
            raise ValueError(f"{option!r} is not an option of {name}; it has {', '.join(fields) or 'none'}.")
    for option, item in fields.items():
        if (
            item.default is dataclasses.MISSING
            and item.default_factory is dataclasses.MISSING
            and option not in options
        ):
            raise ValueError(f"The task {name} needs {option}: {describe(task_class(name)).get(option, '')}")
    return {
        option: str(value) if is_number(value) and is_text(fields[option]) else value
        for option, value in options.items()
    }


def is_text(item: dataclasses.Field[Any]) -> bool:
    return type_name(item) in ("str", "str | None")


@cache
def describe(cls: type) -> dict[str, str]:
    """What is written about each field: the string below it, or its line under `Attributes:` in the docstring."""
    described = _attributes_section(inspect.getdoc(cls) or "")
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
