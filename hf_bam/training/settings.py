"""From recipe files, a file of one's own and a command line to the settings of a run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ..tasks import get_task
from ..tasks.base import Task
from .options import checked_options
from .recipe import Recipe

ATTENTIONS = ("bam", "plain")
RECIPES = ("paper", "fast")
Values = Mapping[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-4 is a number, as everybody expects, and not a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


@dataclass(frozen=True)
class Job:
    """One run: what is trained, on what and how."""

    task: str
    """Its name in `hf_bam.tasks.TASKS`."""
    model: str
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
        if self.attention not in ATTENTIONS:
            raise ValueError(f"attention={self.attention!r} is not known; choose one of {', '.join(ATTENTIONS)}.")
        for name in ("limit", "eval_limit", "holdout"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, 1 or above.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed={self.seed!r} is not valid; it must be a whole number, 0 or above.")

    def make_task(self) -> Task:
        return get_task(self.task, **self.options)

    def to_dict(self) -> dict[str, Any]:
        """All settings in one mapping, recipe included; `resolve` takes it back."""
        own = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.name != "recipe"}
        return {**own, **self.recipe.to_dict()}


JOB_FIELDS = tuple(item.name for item in dataclasses.fields(Job) if item.name != "recipe")


def resolve(*layers: Values) -> Job:
    """The settings of a run; later layers override earlier ones, and the recipe set that they name is below all."""
    merged = merge(*layers)
    if "task" not in merged or "model" not in merged:
        missing = "task" if "task" not in merged else "model"
        raise ValueError(f"{missing} is not given; name it on the command line or in the config file.")
    own = {name: merged[name] for name in JOB_FIELDS if name in merged}
    own["options"] = checked_options(own["task"], own.get("options", {}))
    task, attention = own["task"], own.get("attention", Job.attention)
    keys = f"attention-{attention}", task, f"{task}-{own['model']}", get_task(task, **own["options"]).name
    recipe = merge(recipe_values(merged.get("recipe"), *keys), *layers)
    rest = {name: value for name, value in recipe.items() if name not in (*JOB_FIELDS, "recipe")}
    return Job(**own, recipe=Recipe.from_dict(rest))


def merge(*layers: Values) -> dict[str, Any]:
    """One mapping of several. Those under `bam` and `options` are merged field by field; a preset begins anew."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if name in ("bam", "options") and isinstance(value, Mapping) and not value.get("preset"):
                value = {**merged.get(name, {}), **value}
            merged[name] = value
    return merged


def recipe_values(name: str | None, *keys: str) -> dict[str, Any]:
    """What a recipe set says of a run: its defaults, and the entries of these keys on top."""
    if name is None:
        return {}
    if name not in RECIPES:
        raise ValueError(f"recipe={name!r} is not known; choose one of {', '.join(RECIPES)}.")
    recipes = read_yaml(resources.files(__package__).joinpath("recipes", f"{name}.yaml"))
    return merge(*(recipes[key] for key in ("default", *keys) if key in recipes))


def read_yaml(path: Any) -> dict[str, Any]:
    """A mapping from a file, or an error that says what is wrong with it."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {content!r}; expected settings, one `name: value` a line.")
    return content


def parse_value(text: str) -> Any:
    """A value from a command line, as YAML reads it; `none` is None."""
    value = yaml.load(text, _Loader)
    return None if value == "none" else value


def write_yaml(path: Path, job: Job) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(job.to_dict(), sort_keys=False), encoding="utf-8")
