"""Command line of the runs on graphs: `hf-bam graph`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ...config import option_fields
from ..options import SWITCH, Parser, add_option, keywords, only_for
from .run import run_all
from .settings import DATASETS, VARIANTS, GraphJob

RUN: dict[str, dict[str, Any]] = {
    "dataset": {"choices": DATASETS},
    "data_dir": {
        "metavar": "FOLDER",
        "help": "Read the published files ind.DATASET.* from this folder. They are pickles, which can run code.",
    },
    "download": {**SWITCH, "help": "Let PyTorch Geometric download the files to --data_dir."},
    "variant": {"nargs": "+", "choices": [*VARIANTS, "all"], "metavar": "NAME"},
    "seed": {"nargs": "+", "help": "Seed of weights, dropout and noise. Several seeds: one run each."},
    "output_dir": {
        "metavar": "FOLDER",
        "help": "Write the weights of each run and the results to this folder. Default: out/graph-DATASET.",
    },
    "overwrite_output_dir": {**SWITCH, "help": "Replace the results in --output_dir."},
    "debug": {**SWITCH, "help": "Show the traceback of an error."},
}
"""Options of the run, in the order of the help, with keywords for the parser; fields of a job describe themselves."""


def make_parser(prog: str | None = None) -> Parser:
    """Return the parser; the destination of an option is `group.field`."""
    parser = Parser(prog)
    fields = {item.name: item for item in dataclasses.fields(GraphJob)}
    group = parser.add_argument_group("run")
    for name, own in RUN.items():
        described = keywords(GraphJob, fields[name], default=name != "seed") if name in fields else {}
        add_option(group, f"run.{name}", {**described, **own})
    group = parser.add_argument_group("training", "Options that mention none accept it as a value.")
    for name, item in fields.items():
        if name not in RUN and name != "bam":
            add_option(group, f"job.{name}", keywords(GraphJob, item, default=True))
    group = parser.add_argument_group("Bayesian attention", "Defaults are those of --variant, then those named below.")
    for cls, item in option_fields().values():
        add_option(group, f"bam.{item.name}", only_for(item, keywords(cls, item, default=True)))
    return parser


def parse(argv: Sequence[str], prog: str | None = None) -> tuple[list[GraphJob], dict[str, Any]]:
    """Return the jobs of a command line, each of its variants with each of its seeds, and keywords for `run_all`."""
    given: dict[str, dict[str, Any]] = {"run": {}, "job": {}, "bam": {}}
    for name, value in vars(make_parser(prog).parse_args(argv)).items():
        group, _, key = name.partition(".")
        given[group][key] = value
    run = given["run"]
    if "data_dir" not in run:
        raise ValueError("--data_dir is not given; name the folder with the published files ind.*.")
    common = {**given["job"], "bam": given["bam"], **({"dataset": run["dataset"]} if "dataset" in run else {})}
    variants = run.get("variant", [GraphJob().variant])
    variants = VARIANTS if "all" in variants else list(dict.fromkeys(variants))
    seeds = list(dict.fromkeys(run.get("seed", [0])))
    jobs = [GraphJob(variant=variant, seed=seed, **common) for variant, seed in product(variants, seeds)]
    _check_used(jobs, given["bam"])
    options = {
        "data_dir": Path(run["data_dir"]),
        "output": Path(run.get("output_dir", f"out/graph-{jobs[0].dataset}")),
        "download": "download" in run,
        "overwrite": "overwrite_output_dir" in run,
    }
    return jobs, options


def _check_used(jobs: Sequence[GraphJob], bam: dict[str, Any]) -> None:
    """Raise `ValueError` for settings of Bayesian attention that no variant has."""
    configs = [config.to_dict() for config in (job.bam_config() for job in jobs) if config is not None]
    for name in bam:
        if not any(name in config for config in configs):
            raise ValueError(f"--{name} is not a setting of {', '.join(job.variant for job in jobs)}; leave it out.")


def start(argv: Sequence[str], prog: str) -> None:
    """Run the jobs of a command line."""
    jobs, options = parse(argv, prog)
    run_all(jobs, **options)
