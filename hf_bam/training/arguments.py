"""Command lines, made from the fields of the settings."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ..config import CHOICES, BamConfig
from ..presets import PRESETS
from ..tasks import TASKS
from ..tasks.classification import SentenceTask
from ..tasks.fields import type_name
from ..tasks.glue import SPECS as GLUE
from .compatibility import present_names
from .options import describe, is_text, option_fields, task_class
from .recipe import PRECISIONS, Recipe
from .settings import ATTENTIONS, RECIPES, Job, parse_value, read_yaml, resolve

USUAL = {"recipe": "paper", "model_name_or_path": "albert-base-v2"}
DEFAULTS = {
    "sentiment": {"recipe": "fast", "model_name_or_path": "minilm"},
    "translation": {"model_name_or_path": "scratch"},
}
"""What a command takes where nothing is said."""
SHORT = {
    "model_name_or_path": "model",
    "task_name": "task",
    "output_dir": "output",
    "resume_from_checkpoint": "resume",
    "learning_rate": "lr",
    "num_train_epochs": "epochs",
    "num_samples": "samples",
}
"""Second spellings of options."""
BOOLEAN: dict[str, Any] = {"type": parse_value, "nargs": "?", "const": True, "metavar": "true|false"}
"""Keywords for an option that is true or false, and true without a value."""


@dataclass(frozen=True)
class Request:
    """What a command line asks for; the options are those of `run`."""

    jobs: list[Job]
    output: Path
    options: dict[str, Any]


def commands() -> dict[str, tuple[str, ...]]:
    """The tasks of each command: those with sentences to classify for `glue`, and the others one by one."""
    sentences = tuple(name for name in TASKS if issubclass(task_class(name), SentenceTask))
    return {"glue": sentences, **{name: (name,) for name in TASKS if name not in GLUE}}


def parse(command: str, argv: Sequence[str], prog: str | None = None) -> Request:
    """The jobs of a command line: all its tasks with all its seeds."""
    given: dict[str, dict[str, Any]] = {"job": {}, "recipe": {}, "bam": {}, "options": {}, "run": {}}
    for name, value in vars(make_parser(command, prog).parse_args(argv)).items():
        group, _, key = name.partition(".")
        given[group][key] = value
    run = given["run"]
    file = present_names(read_yaml(Path(run["config"]))) if "config" in run else {}
    known = commands()[command]
    tasks = run.get("task_name", [file["task_name"]] if "task_name" in file else known if len(known) == 1 else [])
    if not tasks:
        raise ValueError(f"--task_name is not given; choose some of {', '.join(known)}, or all of GLUE by all.")
    if "all" in tasks:
        tasks = [*GLUE, *(task for task in tasks if task not in (*GLUE, "all"))]
    for task in tasks:
        if task not in known:
            raise ValueError(
                f"{run['config']}: task_name={task!r} is not a task of this command; it has {', '.join(known)}."
            )
    own = {task: {item.name for item in option_fields(task)} for task in tasks}
    for name in given["options"].keys() - set().union(*own.values()):
        raise ValueError(f"--{name} is not an option of {', '.join(tasks)}; leave it out.")
    jobs = []
    for task, seed in product(tasks, run.get("seeds", [file.get("seed", 0)])):
        options = {name: value for name, value in given["options"].items() if name in own[task]}
        line = {
            **given["job"],
            **given["recipe"],
            "task_name": task,
            "seed": seed,
            "bam": given["bam"],
            "options": options,
        }
        jobs.append(resolve({**USUAL, **DEFAULTS.get(task, {})}, file, line))
    name = jobs[0].make_task().name if len(tasks) == 1 else command
    name += "" if jobs[0].attention == "bam" else f"-{jobs[0].attention}"
    return Request(jobs, Path(run.get("output_dir", f"out/{name}")), _options(run, name, len(jobs)))


def _options(run: Mapping[str, Any], name: str, jobs: int) -> dict[str, Any]:
    options = {key: run[key] for key in ("overwrite_output_dir", "report", "report_to") if key in run}
    if "resume_from_checkpoint" in run:
        options["resume"] = True
    if "hub_model_id" in run and "push_to_hub" not in run:
        raise ValueError(f"--hub_model_id {run['hub_model_id']} is of use with --push_to_hub only; give that, too.")
    if "push_to_hub" in run:
        if jobs > 1:
            raise ValueError(f"--push_to_hub has one repository for {jobs} runs; give one task and one seed.")
        options["hub_model_id"] = run.get("hub_model_id", f"bam-{name}")
    return options


def make_parser(command: str, prog: str | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog, usage="%(prog)s [options]", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    names = commands()[command]
    _add_run(parser.add_argument_group("what to run"), names)
    fields = {item.name: task_class(name) for name in names for item in option_fields(name)}
    if fields:
        group = parser.add_argument_group("task")
        for name, cls in fields.items():
            _add(group, f"--{name}", f"options.{name}", cls, name)
    group = parser.add_argument_group(
        "recipe", "Values are those of --recipe where nothing is said; none is one, too."
    )
    for item in dataclasses.fields(Recipe):
        if item.name != "bam":
            _add(group, f"--{item.name}", f"recipe.{item.name}", Recipe, item.name)
    group = parser.add_argument_group("Bayesian attention")
    presets: dict[str, Any] = {"choices": PRESETS, "type": str.lower, "metavar": "NAME", "help": ", ".join(PRESETS)}
    group.add_argument("--preset", dest="bam.preset", **presets)
    taken = {option for action in parser._actions for option in action.option_strings}
    for item in dataclasses.fields(BamConfig):
        flag = f"--bam_{item.name}" if f"--{item.name}" in taken else f"--{item.name}"
        _add(group, flag, f"bam.{item.name}", BamConfig, item.name)
    return parser


def _add_run(group: Any, names: Sequence[str]) -> None:
    text = describe(Job)
    if len(names) > 1:
        every = ", ".join(names)
        group.add_argument(
            *_flags("task_name"),
            dest="run.task_name",
            nargs="+",
            choices=[*names, "all"],
            metavar="TASK",
            help=f"{every}, or all of GLUE",
        )
    group.add_argument(
        *_flags("model_name_or_path"),
        dest="job.model_name_or_path",
        metavar="NAME",
        help=f"{text['model_name_or_path']} minilm: a small one that is a package.",
    )
    group.add_argument(
        *_flags("output_dir"), dest="run.output_dir", metavar="FOLDER", help="For everything that comes out of it."
    )
    group.add_argument("--data_dir", dest="job.data_dir", metavar="FOLDER", help=text["data_dir"])
    group.add_argument("--recipe", dest="job.recipe", choices=RECIPES, help="The paper's, or for a laptop's CPU.")
    group.add_argument("--config", dest="run.config", metavar="FILE", help="YAML, as a run writes it to config.yaml.")
    group.add_argument("--attention", dest="job.attention", choices=ATTENTIONS, help=text["attention"])
    group.add_argument("--lora", dest="job.lora", help=text["lora"], **BOOLEAN)
    group.add_argument(
        "--seed", "--seeds", dest="run.seeds", nargs="+", type=parse_value, metavar="N", help=text["seed"]
    )
    group.add_argument("--limit", dest="job.limit", type=parse_value, metavar="N", help=text["limit"])
    group.add_argument("--eval_limit", dest="job.eval_limit", type=parse_value, metavar="N", help=text["eval_limit"])
    group.add_argument("--holdout", dest="job.holdout", type=parse_value, metavar="N", help=text["holdout"])
    group.add_argument(
        *_flags("resume_from_checkpoint"),
        dest="run.resume_from_checkpoint",
        action="store_true",
        help="Resume from the last checkpoint in --output_dir.",
    )
    group.add_argument(
        "--overwrite_output_dir",
        dest="run.overwrite_output_dir",
        action="store_true",
        help="Remove the run that is in --output_dir, finished or not, and begin anew.",
    )
    group.add_argument("--no_report", dest="run.report", action="store_false", help="No page about the doubt.")
    group.add_argument(
        "--report_to", dest="run.report_to", nargs="+", metavar="TRACKER", help="tensorboard, wandb, ..."
    )
    group.add_argument("--push_to_hub", dest="run.push_to_hub", action="store_true", help="Upload the model.")
    group.add_argument("--hub_model_id", dest="run.hub_model_id", metavar="NAME", help="The repository for it.")
    group.add_argument("--debug", dest="run.debug", action="store_true", help="Errors with a traceback.")


def _flags(name: str) -> list[str]:
    """Return the spellings of an option, the usual one first."""
    return [f"--{name}", *([f"--{SHORT[name]}"] if name in SHORT else [])]


def _add(group: Any, flag: str, dest: str, cls: Any, name: str) -> None:
    """An option for a field of a dataclass."""
    item = cls.__dataclass_fields__[name]
    choices = CHOICES.get(name) if cls is BamConfig else PRECISIONS if name == "precision" else None
    settings: dict[str, Any] = {"dest": dest, "help": describe(cls).get(name, "").replace("%", "%%")}
    if choices or is_text(item):
        settings |= {"choices": choices} if choices else {}
    elif type_name(item) == "bool":
        settings |= BOOLEAN
    else:
        settings |= {"type": parse_value}
    group.add_argument(flag, *_flags(name)[1:], **{"metavar": "VALUE", **settings} if not choices else settings)
