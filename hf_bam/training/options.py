"""Options of a command line that are fields of settings, with their help."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..families import FAMILIES
from ..fields import CHOICES, describe, is_number, type_name
from .files import parse_value
from .settings import is_text

SECOND = {
    "task_name": "--task",
    "model_name_or_path": "--model",
    "output_dir": "--output",
    "seed": "--seeds",
    "resume_from_checkpoint": "--resume",
    "learning_rate": "--lr",
    "num_train_epochs": "--epochs",
    "num_samples": "--samples",
}
"""Second spellings of options."""
LONGEST_ERROR = 2000
"""Characters of an error about options."""
SWITCH: dict[str, Any] = {"action": "store_true"}


class HelpFormatter(argparse.HelpFormatter):
    """Help that names the value of an option once, after its last spelling."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """Parser of a command: only options that are given have a value, and an error is one line."""

    def __init__(self, prog: str | None, usage: str = "%(prog)s [options]", **options: Any) -> None:
        super().__init__(
            prog,
            usage=usage,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=HelpFormatter,
            **options,
        )

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        super().error(line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]} ...")


def only_for(item: dataclasses.Field[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of an option of Bayesian attention, with the families that have it if not all do.

    A setting that families describe in different ways has all descriptions.
    """
    texts: dict[str, list[str]] = {}
    for family, cls in FAMILIES.items():
        for own in (own for own in dataclasses.fields(cls) if own.name == item.name):
            texts.setdefault(described(cls, own, default=True), []).append(family)
    if 0 < sum(map(len, texts.values())) < len(FAMILIES):
        options["help"] = " ".join(f"{text} Only for --family {', '.join(own)}." for text, own in texts.items())
    return options


def add_option(group: Any, destination: str, options: Mapping[str, Any], prefix: str = "") -> None:
    """Add an option to a parser, with its second spelling if it has one."""
    name = destination.partition(".")[2]
    second = [SECOND[name]] if name in SECOND else []
    group.add_argument(f"--{prefix}{name}", *second, dest=destination, **options)


def keywords(cls: type, item: dataclasses.Field[Any], default: bool = False) -> dict[str, Any]:
    """Return keywords of an option that is a field: its values and its description, with its default if wanted."""
    choices = item.metadata.get(CHOICES)
    options: dict[str, Any] = {"help": described(cls, item, default)}
    if choices:
        return options | {"choices": choices}
    if type_name(item) == "bool":  # true without a value
        return options | {"type": parse_value, "nargs": "?", "const": True, "metavar": "true|false"}
    metavar = {"int": "N", "float": "X", "str": "TEXT"}.get(type_name(item).removesuffix(" | None"), "VALUE")
    return options | {"metavar": metavar} | ({} if is_text(item) else {"type": parse_value})


def described(cls: type, item: dataclasses.Field[Any], default: bool) -> str:
    """Return the description of a field for the help, with its default if wanted."""
    text = re.sub(r'`"([^`"]*)"`', r"\1", describe(cls).get(item.name, "")).replace("`", "")
    if default and item.default not in (dataclasses.MISSING, None, "", False):
        text += f" Default: {item.default:g}." if is_number(item.default) else f" Default: {item.default}."
    return text.replace("%", "%%")
