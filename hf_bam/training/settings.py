"""From recipe files, a file of one's own and a command line to the settings of a run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ..config import BamConfig
from ..tasks import get_task
from ..tasks.base import Task
from ..tasks.fields import check_field, check_fields
from .options import checked_options
from .recipe import Recipe, by_epochs_or_steps

ATTENTIONS = ("bam", "plain")
RECIPES = ("paper", "fast")
Values = Mapping[str, Any]


# Numbers are decimal. What else YAML 1.1 would take for a number, a truth value or a date (12:30:45, 1_000, 0x10, 007,
# .inf, yes, 2020-01-01) is text.
NULL = r"~|null|Null|NULL|"
BOOL = r"true|True|TRUE|false|False|FALSE"
INT = r"[-+]?(0|[1-9][0-9]*)"
FLOAT = r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"


class _Loader(yaml.SafeLoader):
    """YAML with fewer surprises: plain numbers, 1e-4 among them, true and false; no name twice in a mapping."""

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
    """YAML that quotes what either reader would take for a number."""


for _tag, _pattern in {"null": NULL, "bool": BOOL, "int": INT, "float": FLOAT, "merge": "<<"}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{FLOAT})$"), list("-+.0123456789"))


@dataclass(frozen=True)
class Job:
    """One run: what is trained, on what and how."""

    task_name: str
    """Its name in `hf_bam.tasks.TASKS`."""
    model_name_or_path: str
    """A name on the Hub or a folder; "scratch" for tasks that can make one of their own."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the task."""
    attention: str = "bam"
    """"bam", or "plain" for the model as it is, with the same recipe."""
    lora: bool = False
    """Train adapters, the prior network and the head, and leave the rest as it is."""
    seed: int = 0
    """Of initial weights, order of the examples and noise."""
    data_dir: str | None = None
    """Folder of the data; None: they come from where the task says."""
    limit: int | None = None
    """Take this many rows of each set, to try something out; None: all."""
    eval_limit: int | None = None
    """Take this many rows of each evaluation and test set; None: as many as `limit` says."""
    holdout: int | None = None
    """Leave this many rows out of training, and let them choose the best checkpoint instead of the evaluation set."""
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.attention not in ATTENTIONS:
            raise ValueError(f"attention={self.attention!r} is not known; choose one of {', '.join(ATTENTIONS)}.")
        for name in ("limit", "eval_limit", "holdout"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, 1 or above.")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed!r} is not valid; it must be a whole number, 0 or above.")

    def make_task(self) -> Task:
        return get_task(self.task_name, **self.options)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings in one mapping, those of the recipe included; `resolve` takes it back.

        It has either max_steps or num_train_epochs.
        """
        values = {name: getattr(self, name) for name in JOB_FIELDS} | self.recipe.to_dict()
        return {
            name: value
            for name, value in values.items()
            if name != "num_train_epochs" or self.recipe.max_steps is None
        }


JOB_FIELDS = {item.name: item for item in dataclasses.fields(Job) if item.name != "recipe"}


def resolve(*layers: Values) -> Job:
    """The settings of a run; later layers override earlier ones, and the recipe set that they name is below all."""
    merged = merge(*layers)
    for name in ("task_name", "model_name_or_path"):
        if name not in merged:
            raise ValueError(f"{name} is not given; name it on the command line or in the config file.")
    own = {name: merged[name] for name in JOB_FIELDS if name in merged}
    for name, value in own.items():
        check_field(JOB_FIELDS[name], value)
    own["options"] = checked_options(own["task_name"], own.get("options", {}))
    task, attention = own["task_name"], own.get("attention", Job.attention)
    keys = f"attention-{attention}", task, f"{task}-{own['model_name_or_path']}", get_task(task, **own["options"]).name
    recipe = merge(*recipe_layers(merged.get("recipe"), *keys), *layers)
    rest = {name: value for name, value in recipe.items() if name not in (*JOB_FIELDS, "recipe")}
    return Job(**own, recipe=Recipe.from_dict(rest))


def merge(*layers: Values) -> dict[str, Any]:
    """One mapping of several; `num_train_epochs` takes the place of an earlier `max_steps`, and the other way round.

    Those under `bam` and `options` are merged field by field; a preset begins anew.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in by_epochs_or_steps(layer).items():
            if name in ("bam", "options"):
                value = _mapping(name, value)
                value = value if value.get("preset") else {**merged.get(name, {}), **value}
            merged[name] = value
    if merged.get("max_steps") is not None:
        merged.pop("num_train_epochs", None)
    return merged


def _mapping(name: str, value: Any) -> dict[str, Any]:
    value = value.to_dict() if isinstance(value, BamConfig) else value
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}={value!r} is not valid; it must be a mapping of names to values.")
    return dict(value)


def recipe_layers(name: str | None, *keys: str) -> list[Values]:
    """What a recipe set says of a run: its defaults, and the entries of these keys on top."""
    if name is None:
        return []
    if name not in RECIPES:
        raise ValueError(f"recipe={name!r} is not known; choose one of {', '.join(RECIPES)}.")
    recipes = read_yaml(resources.files(__package__).joinpath("recipes", f"{name}.yaml"))
    return [recipes[key] for key in ("default", *keys) if key in recipes]


def read_yaml(path: Any) -> dict[str, Any]:
    """A mapping from a file, or an error that says what is wrong with it."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {content!r}; expected settings, one `name: value` a line.")
    return content


def parse_value(text: str) -> Any:
    """A value from a command line: a plain number, true or false, none, or a list of these in brackets; else text."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [parse_value(part) for part in text[1:-1].split(",") if text[1:-1].strip()]
    for pattern, kind in ((INT, int), (FLOAT, float)):
        if re.fullmatch(pattern, text):
            return kind(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def write_yaml(path: Path, job: Job) -> None:
    """Writes the settings as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(yaml.dump(job.to_dict(), Dumper=_Dumper, sort_keys=False), encoding="utf-8")
    unfinished.replace(path)
