"""Command lines, made from the fields of the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from ..config import option_fields as bam_fields
from ..families.presets import PRESETS
from ..fields import is_number, shown
from ..tasks import TASKS
from .compatibility import present_settings
from .files import read_yaml
from .folder import CONFIG
from .options import SWITCH, Parser, add_option, keywords, only_for
from .recipe import Recipe
from .settings import RECIPES, Job, fixed_fields, merge, recipe_layers, resolve, task_class, task_fields

OWN = {"graph": "graphs", "evaluate": "evaluate", "predict": "predict", "demo": "demo"}
"""Commands with options of their own, and their subpackages."""
RUN: dict[str, dict[str, Any]] = {
    "model_name_or_path": {"metavar": "NAME"},
    "output_dir": {
        "metavar": "FOLDER",
        "help": "Write the model, checkpoints, log, predictions and results to this folder. Default: out/TASK.",
    },
    "data_dir": {"metavar": "FOLDER"},
    "recipe": {
        "choices": RECIPES,
        "metavar": None,
        "type": str,
        "help": "Take the defaults of the options below from the paper (paper), or use values for a laptop without a "
        "GPU (fast).",
    },
    "config": {
        "metavar": "FILE",
        "help": "Read settings from a YAML file, such as the config.yaml of another run. Options on the command line "
        "take precedence.",
    },
    "attention": {},
    "lora": {},
    "seed": {
        "nargs": "+",
        "help": "Seed of new weights, data order and noise. Several seeds: one run each, with a summary.",
    },
    "limit": {},
    "eval_limit": {},
    "holdout": {},
    "resume_from_checkpoint": {
        **SWITCH,
        "help": "Resume from the last checkpoint in --output_dir, with the settings of its config.yaml.",
    },
    "overwrite_output_dir": {**SWITCH, "help": "Remove the run in --output_dir, finished or not, and start again."},
    "no_report": {**SWITCH, "help": "Do not write the uncertainty report."},
    "report_to": {"nargs": "+", "metavar": "NAME", "help": "Log to these trackers: tensorboard, wandb, ..."},
    "push_to_hub": {**SWITCH, "help": "Upload the model to the Hub."},
    "hub_model_id": {"metavar": "NAME", "help": "Upload to this repository. Default: bam-TASK."},
    "debug": {**SWITCH, "help": "Show the traceback of an error."},
}
"""Options of the run, in the order of the help, with keywords for the parser; fields of a job describe themselves."""


@dataclass(frozen=True)
class Request:
    """Jobs of a command line, their folder, and options for `run`."""

    jobs: list[Job]
    output: Path
    options: dict[str, Any]


def commands() -> dict[str, tuple[str, ...]]:
    """Return the tasks of each command: one task of its name, or all tasks that name the command.

    Graphs are no task: they have neither texts nor batches. An evaluation is of any task.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in TASKS:
        shared = task_class(name).command
        found |= {} if shared is None else {shared: (*found.get(shared, ()), name)}
        found |= {} if fixed_fields(name) else {name: (name,)}
    return {**found, **dict.fromkeys(OWN, ())}


def parse(command: str, argv: Sequence[str], prog: str | None = None) -> Request:
    """Return the jobs of a command line: each of its tasks with each of its seeds."""
    given: dict[str, dict[str, Any]] = {"job": {}, "recipe": {}, "bam": {}, "options": {}, "run": {}}
    for name, value in vars(make_parser(command, prog).parse_args(argv)).items():
        group, _, key = name.partition(".")
        given[group][key] = value
    job, run = given["job"], given["run"]
    path = _settings_file(run)
    file = {} if path is None else present_settings(read_yaml(path))
    if "config" not in run and file.get("max_steps") is not None:
        file.pop("num_train_epochs", None)  # earlier versions wrote both
    tasks = _tasks(commands()[command], job.get("task_name"), file, path)
    own = {task: {item.name for item in task_fields(task)} for task in tasks}
    for name in given["options"].keys() - set().union(*own.values()):
        raise ValueError(f"--{name} is not an option of {', '.join(tasks)}; leave it out.")
    jobs = []
    for task, seed in product(tasks, job.get("seed", [file.get("seed", 0)])):
        options = {name: value for name, value in given["options"].items() if name in own[task]}
        line = {**job, **given["recipe"], "task_name": task, "seed": seed, "bam": given["bam"], "options": options}
        jobs.append(resolve(_defaults(task), file, line))
    name = jobs[0].make_task().name if len(tasks) == 1 else command
    name += "" if jobs[0].attention == "bam" else f"-{jobs[0].attention}"
    return Request(jobs, Path(run.get("output_dir", f"out/{name}")), _run_options(run, name, len(jobs)))


def _settings_file(run: Mapping[str, Any]) -> Path | None:
    """Return the file of settings that is named, or else that of the run to resume."""
    if "config" in run:
        return Path(run["config"])
    own = Path(run.get("output_dir", ""), CONFIG)
    return own if {"resume_from_checkpoint", "output_dir"} <= run.keys() and own.is_file() else None


def _defaults(task: str) -> dict[str, Any]:
    """Return the settings of a task that a command line may leave out."""
    cls = task_class(task)
    return {"model_name_or_path": cls.default_model, "recipe": cls.default_recipe}


def _tasks(known: Sequence[str], named: Sequence[str] | None, file: Mapping[str, Any], path: Any) -> Sequence[str]:
    """Return the tasks that the command line or the file names; a command with one task need not name it."""
    usual = known if len(known) == 1 else ()
    tasks = named or ([file["task_name"]] if "task_name" in file else usual)
    if not tasks:
        raise ValueError(
            f"--task_name is not given; choose some of {', '.join(known)}, or all for the whole benchmark."
        )
    if "all" in tasks:
        benchmark = [task for task in known if fixed_fields(task)]
        tasks = [*benchmark, *(task for task in tasks if task not in (*benchmark, "all"))]
    for task in tasks:
        if task not in known:
            raise ValueError(
                f"{path}: task_name={shown(task)} is not a task of this command; it has {', '.join(known)}."
            )
    return tasks


def _run_options(run: Mapping[str, Any], name: str, jobs: int) -> dict[str, Any]:
    """Return keywords for `run`."""
    options = {key: run[key] for key in ("overwrite_output_dir", "report_to") if key in run}
    options |= {"resume": True} if "resume_from_checkpoint" in run else {}
    options |= {"report": False} if "no_report" in run else {}
    if "hub_model_id" in run and "push_to_hub" not in run:
        raise ValueError(f"--hub_model_id {run['hub_model_id']} has no effect without --push_to_hub; add that option.")
    if "push_to_hub" in run:
        if jobs > 1:
            raise ValueError(f"--push_to_hub has one repository for {jobs} runs; give one task and one seed.")
        options["hub_model_id"] = run.get("hub_model_id", f"bam-{name}")
    return options


def own_command(command: str) -> Any:
    """Return the module of a command with options of its own."""
    return import_module(f".{OWN[command]}.command", __package__)


def make_parser(command: str, prog: str | None = None) -> Parser:
    """Return the parser of a command; the destination of an option is `group.field`."""
    if command in OWN:
        made: Parser = own_command(command).make_parser(prog)
        return made
    parser = Parser(prog)
    names = commands()[command]
    _add_run(parser.add_argument_group("run"), names)
    fields = {item.name: (task_class(name), item) for name in names for item in task_fields(name)}
    group = parser.add_argument_group("task") if fields else None
    for cls, item in fields.values():
        add_option(group, f"options.{item.name}", keywords(cls, item, default=True))
    group = parser.add_argument_group(
        "recipe", "Defaults are those of --recipe, and of the task. Options that mention none accept it as a value."
    )
    for item in dataclasses.fields(Recipe):
        if item.name != "bam":
            options = keywords(Recipe, item)
            options["help"] += _default_of(item, names)
            add_option(group, f"recipe.{item.name}", options)
    group = parser.add_argument_group(
        "Bayesian attention", "Defaults are those of --recipe or --preset, then those named below."
    )
    text = f"Set the options of this group to named values: {', '.join(PRESETS)}."
    add_option(group, "bam.preset", {"choices": PRESETS, "type": str.lower, "metavar": "NAME", "help": text})
    taken = {option for action in parser._actions for option in action.option_strings}
    for cls, item in bam_fields().values():
        options = keywords(cls, item, default=True)
        add_option(group, f"bam.{item.name}", only_for(item, options), "bam_" if f"--{item.name}" in taken else "")
    return parser


def _default_of(item: dataclasses.Field[Any], names: Sequence[str]) -> str:
    """Return the default of a field in each recipe, for the help; that of the task if the command has one."""
    keys = names if len(names) == 1 else ()
    found: dict[str, list[str]] = {}
    for recipe in RECIPES:
        value = merge(*recipe_layers(recipe, *keys)).get(item.name, item.default)
        text = "none" if value is None else f"{value:g}" if is_number(value) else str(value).lower()
        found.setdefault(text, []).append(recipe)
    texts = [text if len(found) == 1 else f"{text} ({', '.join(recipes)})" for text, recipes in found.items()]
    return f" Default: {', '.join(texts)}."


def _add_run(group: Any, names: Sequence[str]) -> None:
    if len(names) > 1:
        text = f"Run these tasks: {', '.join(names)}, or all for the whole benchmark."
        add_option(group, "job.task_name", {"nargs": "+", "choices": [*names, "all"], "metavar": "TASK", "help": text})
    fields, defaults = {item.name: item for item in dataclasses.fields(Job)}, _defaults(names[0])
    for name, own in RUN.items():
        if name in fields:
            options = {**keywords(Job, fields[name], default=True), **own}
            options["help"] += f" Default: {defaults[name]}." if name in defaults else ""
            add_option(group, f"job.{name}", options)
        else:
            add_option(group, f"run.{name}", own)
