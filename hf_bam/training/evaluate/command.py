"""Command line of evaluations: `hf-bam evaluate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...tasks import TASKS
from ..options import SWITCH, Parser, add_option, keywords
from ..recipe import Recipe
from ..settings import Job, task_class, task_fields
from .run import evaluate
from .settings import COLUMNS, Evaluation, make_job

JOB: dict[str, dict[str, Any]] = {
    "model_name_or_path": {
        "metavar": "NAME",
        "help": "Trained model: the folder model of a run, any folder of a transformers model, or a name on the Hub.",
    },
    "task_name": {
        "choices": tuple(TASKS),
        "metavar": "TASK",
        "help": f"Evaluate on this task: {', '.join(TASKS)}. Default: custom if --data is a file, or else the task of "
        "the run that trained the model.",
    },
    "data_dir": {"metavar": "FOLDER"},
    "eval_limit": {"help": "Use this many rows of each set, for a quick trial. none: all rows."},
}
"""Options of the job, in the order of the help, with keywords for the parser; fields describe themselves."""
OUTPUT: dict[str, dict[str, Any]] = {
    "output_dir": {
        "metavar": "FOLDER",
        "help": "Write comparison.json, the predictions and the report to this folder. Default: nothing is written.",
    },
    "overwrite_output_dir": {**SWITCH, "help": "Replace the evaluation in --output_dir."},
    "no_report": {**SWITCH, "help": "Do not write the report."},
    "debug": {**SWITCH, "help": "Show the traceback of an error."},
}
RECIPE: dict[str, dict[str, Any]] = {
    "num_samples": {"help": "Samples per input, of the attention or, for a plain model, by dropout. 1: no samples."},
    "dropout": {"help": "Rate of MC dropout, for a plain model. none: 0.1."},
    "max_length": {},
    "per_device_eval_batch_size": {},
}
"""Options of the recipe that an evaluation has."""
NEW_MODELS = ("vocabulary", "width", "layers", "heads")
"""Options of tasks for models from scratch."""
ABOUT = (
    "Measure a trained model on labelled data: how often it is right, how well its probabilities and its uncertainty "
    "say so, what samples and a temperature change, and which of these to use."
)


def make_parser(prog: str | None = None) -> Parser:
    """Return the parser; the destination of an option is `group.field`."""
    parser = Parser(prog, "%(prog)s --model_name_or_path FOLDER [options]", description=ABOUT)
    of_job = {item.name: item for item in dataclasses.fields(Job)}
    group = parser.add_argument_group("model and data")
    for name, own in JOB.items():
        add_option(group, f"job.{name}", {**keywords(Job, of_job[name]), **own})
    for item in dataclasses.fields(Evaluation):
        own = {} if item.name == "alpha" else {"metavar": "FILE"}
        add_option(group, f"evaluation.{item.name}", {**keywords(Evaluation, item, default=True), **own})
    group = parser.add_argument_group("output")
    for name, own in OUTPUT.items():
        add_option(group, f"output.{name}", own)
    group = parser.add_argument_group("prediction", "Defaults are those of the run that trained the model, if any.")
    of_recipe = {item.name: item for item in dataclasses.fields(Recipe)}
    for name, own in RECIPE.items():
        add_option(group, f"recipe.{name}", {**keywords(Recipe, of_recipe[name]), **own})
    group = parser.add_argument_group("task", "Defaults are those of the run that trained the model, if any.")
    fields = {item.name: (task_class(name), item) for name in TASKS for item in task_fields(name)}
    for cls, item in (fields[name] for name in fields if name not in NEW_MODELS):
        options = keywords(cls, item, default=True)
        options["help"] += f" Default: {COLUMNS[item.name]}." if item.name in COLUMNS else ""
        add_option(group, f"options.{item.name}", options)
    return parser


def parse(argv: Sequence[str], prog: str | None = None) -> tuple[Job, Evaluation, dict[str, Any]]:
    """Return the job, the data and keywords for `evaluate` of a command line."""
    given: dict[str, dict[str, Any]] = {"job": {}, "evaluation": {}, "output": {}, "recipe": {}, "options": {}}
    for name, value in vars(make_parser(prog).parse_args(argv)).items():
        group, _, key = name.partition(".")
        given[group][key] = value
    if "model_name_or_path" not in given["job"]:
        raise ValueError("--model_name_or_path is not given; name the folder of a trained model.")
    evaluation = Evaluation(**given["evaluation"])
    line = {**given["job"], **given["recipe"], "options": given["options"]}
    output = given["output"]
    options = {
        "output": Path(output["output_dir"]) if "output_dir" in output else None,
        "overwrite": "overwrite_output_dir" in output,
        "report": "no_report" not in output,
    }
    return make_job(line.pop("model_name_or_path"), evaluation, line), evaluation, options


def start(argv: Sequence[str], prog: str) -> None:
    """Run the evaluation of a command line."""
    job, evaluation, options = parse(argv, prog)
    evaluate(job, evaluation, **options)
