"""Settings of a run, from recipe files, a config file and a command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module, resources
from typing import Any

from ..config import BamConfig, carried_over
from ..fields import check_fields, describe, is_number, setting, shown, type_name
from ..tasks import TASKS, get_task
from ..tasks import __name__ as tasks_package
from ..tasks.base import Task
from .files import read_yaml
from .recipe import Recipe, epochs_or_steps

ATTENTIONS = ("bam", "plain")
RECIPES = ("paper", "fast")
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: a model, a task and a recipe."""

    task_name: str
    """Name of the task in `hf_bam.tasks.TASKS`."""
    model_name_or_path: str
    """Pretrained model: a name on the Hub, a folder, `minilm` (a small BERT that comes as a package) or, for
    translation and other pairs of texts, `scratch` or `recurrent` (new models), or `scratch` for questions
    about images."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the task."""
    attention: str = setting("bam", choices=ATTENTIONS)
    """Bayesian attention (bam) or the attention of the model (plain)."""
    lora: bool = False
    """Train LoRA adapters, the prior network and the head; the other weights stay fixed."""
    seed: int = setting(0, least=0, most=2**32 - 1)
    """Seed of new weights, data order and noise."""
    data_dir: str | None = None
    """Folder with the data files. none: the task downloads its data."""
    limit: int | None = setting(None, least=1)
    """Use this many rows of each set, for a quick trial. none: all rows."""
    eval_limit: int | None = setting(None, least=1)
    """Use this many rows of each evaluation and test set. none: the same as limit."""
    holdout: int | None = setting(None, least=1)
    """Hold this many rows out of training; they select the best checkpoint instead of the evaluation set."""
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        check_fields(self)

    def make_task(self) -> Task:
        return get_task(self.task_name, **self.options)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings in one mapping, those of the recipe included; `resolve` takes it back.

        It has either max_steps or num_train_epochs.
        """
        values = {name: getattr(self, name) for name in JOB_FIELDS} | self.recipe.to_dict()
        if self.recipe.max_steps is not None:
            del values["num_train_epochs"]
        return values


JOB_FIELDS = [item.name for item in dataclasses.fields(Job) if item.name != "recipe"]


def resolve(*layers: Values) -> Job:
    """Return the settings of a run. Later layers override earlier ones, and all override the recipe that they name."""
    merged = merge(*layers)
    for name in ("task_name", "model_name_or_path"):
        if name not in merged:
            raise ValueError(f"{name} is not given; name it on the command line or in the config file.")
    job = Job(**{name: merged[name] for name in JOB_FIELDS if name in merged})
    options = checked_options(job.task_name, job.options)
    task = get_task(job.task_name, **options)
    keys = f"attention-{job.attention}", job.task_name, f"{job.task_name}-{job.model_name_or_path}", task.name
    merged = merge(*recipe_layers(merged.get("recipe"), *dict.fromkeys(keys)), *layers)
    rest = {name: value for name, value in merged.items() if name not in (*JOB_FIELDS, "recipe")}
    return dataclasses.replace(job, options=options, recipe=Recipe.from_dict(rest))


def merge(*layers: Values) -> dict[str, Any]:
    """Return one mapping of several, in which `num_train_epochs` and `max_steps` replace each other.

    `bam` and `options` are merged field by field. In `bam` a preset replaces all earlier fields, and another family
    those that it does not have.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in epochs_or_steps(layer).items():
            if name in ("bam", "options"):
                value, earlier = _mapping(name, value), merged.get(name, {})
                if name == "bam" and "family" in value:
                    earlier = carried_over(value["family"], earlier)
                value = value if value.get("preset") else {**earlier, **value}
            merged[name] = value
    if merged.get("max_steps") is not None:
        merged.pop("num_train_epochs", None)
    return merged


def _mapping(name: str, value: Any) -> dict[str, Any]:
    value = value.to_dict() if isinstance(value, BamConfig) else value
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}={shown(value)} is not valid; it must be a mapping of names to values.")
    return dict(value)


def recipe_layers(name: str | None, *keys: str) -> list[Values]:
    """Return the defaults of a recipe file and, on top, its entries of these keys."""
    if name is None:
        return []
    if name not in RECIPES:
        raise ValueError(f"recipe={shown(name)} is not known; choose one of {', '.join(RECIPES)}.")
    recipes = _recipes(name)
    return [recipes[key] for key in ("default", *keys) if key in recipes]


@cache
def _recipes(name: str) -> dict[str, Any]:
    """Return a recipe file, which is read once: a help text asks for every default."""
    return read_yaml(resources.files(__package__).joinpath("recipes", f"{name}.yaml"))


def task_class(name: str) -> type[Task]:
    """Return the class of a task in the registry; its fields are the options of the task."""
    if name not in TASKS:
        raise ValueError(f"task_name={shown(name)} is not known; choose one of {', '.join(TASKS)}.")
    factory: Any = TASKS[name]
    if isinstance(factory, partial):
        module, kind = factory.args
        factory = getattr(import_module(f".{module}", tasks_package), kind)
    return factory


def fixed_fields(name: str) -> dict[str, Any]:
    """Return the fields of a task that its entry in the registry sets; entries with such fields form a benchmark."""
    fixed: dict[str, Any] = getattr(TASKS.get(name), "keywords", {})
    return fixed


def task_fields(name: str) -> list[dataclasses.Field[Any]]:
    """Return the options of a task: the fields that its entry in the registry leaves open."""
    fields = dataclasses.fields(task_class(name))  # type: ignore[arg-type]
    return [item for item in fields if item.name not in fixed_fields(name)]


def checked_options(name: str, options: Values) -> dict[str, Any]:
    """Return the options of a task, with numbers as text where the task takes text.

    An option that the task does not have, or one that it requires and does not get, is an error.
    """
    fields = {item.name: item for item in task_fields(name)}
    for option in options:
        if option not in fields:
            raise ValueError(f"{shown(option)} is not an option of {name}; it has {', '.join(fields) or 'none'}.")
    for option, item in fields.items():
        optional = (item.default, item.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        if option not in options and not optional:
            raise ValueError(f"The task {name} needs {option}: {describe(task_class(name)).get(option, '')}")
    return {
        option: str(value) if is_number(value) and is_text(fields[option]) else value
        for option, value in options.items()
    }


def is_text(item: dataclasses.Field[Any]) -> bool:
    return type_name(item) in ("str", "str | None")
