"""YAML and JSON files of settings and results, written as a whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ..fields import shown
from ..tasks.writers import finite

# Numbers are decimal, and whole ones with more than 19 digits are floats. Other forms that YAML 1.1 reads as a number,
# a boolean or a date (12:30:45, 1_000, 0x10, 007, .inf, yes, 2020-01-01) are text.
NULL = r"~|null|Null|NULL|"
BOOL = r"true|True|TRUE|false|False|FALSE"
INT = r"[-+]?(0|[1-9][0-9]{0,18})"
FLOAT = r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
LARGEST_FILE = 2**20
"""Bytes of a file of settings, at most."""


class _Loader(yaml.SafeLoader):
    """YAML reader with decimal numbers, 1e-4 among them, true and false; a name twice in a mapping is an error."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def compose_mapping_node(self, anchor: Any) -> Any:
        node: Any = super().compose_mapping_node(anchor)
        names = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in names:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} is given twice", key.start_mark)
            names.add(name)
        return node


class _Dumper(yaml.SafeDumper):
    """YAML writer that quotes text which this reader or another one would take for a number."""


for _tag, _pattern in {"null": NULL, "bool": BOOL, "int": INT, "float": FLOAT, "merge": "<<"}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{FLOAT})$"), list("-+.0123456789"))


def read_yaml(path: Any) -> dict[str, Any]:
    """Return the mapping in a file, or raise an error that names the file and the problem."""
    try:
        content = yaml.load(_text(path), _Loader)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except RecursionError as error:
        raise ValueError(f"{path} is not YAML of settings: it is nested too deeply.") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        # also of explicit tags and of escaped characters beyond Unicode
        raise ValueError(f"{path} is not YAML of settings: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {shown(content)}; expected settings, one `name: value` per line.")
    return content


def _text(path: Any) -> str:
    """Return the text of a file of settings, which is small; a device or a pipe might have no end."""
    with path.open("rb") as file:
        content: bytes = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE} bytes.")
    return content.decode("utf-8")


def parse_value(text: str) -> Any:
    """Return a value of a command line: a decimal number, true, false, none, a list of these in brackets, or text."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part.strip()) for part in text[1:-1].split(",") if text[1:-1].strip()]
    return _scalar(text)


def _scalar(text: str) -> Any:
    for pattern, kind in ((INT, int), (FLOAT, float)):
        if re.fullmatch(pattern, text):
            return kind(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def write_yaml(path: Path, content: dict[str, Any]) -> Path:
    """Write a mapping in its order."""
    return write_text(path, yaml.dump(content, Dumper=_Dumper, sort_keys=False))


def write_json(path: Path, content: Any) -> Path:
    """Write a file that any JSON reader takes: numbers that are not finite become null."""
    return write_text(path, json.dumps(finite(content), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> Path:
    """Write to a hidden file and rename it, so that a reader never finds half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        return unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def remove(part: Path) -> None:
    """Remove a file, a folder or a link, if there is one."""
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink(missing_ok=True)
