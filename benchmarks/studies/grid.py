"""Plan of the study: runs, and the settings of each."""

from collections import Counter
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import NamedTuple

import yaml

from hf_bam.training.settings import merge


class PlannedRun(NamedTuple):
    """One configuration on one task with one seed."""

    task: str
    configuration: str
    seed: int

    def __str__(self):
        return f"{self.task}, {self.configuration}, seed {self.seed}"


@dataclass(frozen=True)
class Evaluation:
    """Settings of the evaluation of a run. All other settings are those of its training.

    Attributes:
        evaluation_set: set on which the methods are compared; None: the first one that is not held out.
        ood: arguments of `ood.read`; None: no out-of-distribution inputs.
        teacher_forcing: also evaluate the probabilities of the tokens of the references.
        pilot: evaluate on held-out rows only.
        suite: "methods", the samplers of a trained model; "uncertainty", everything else that can be done, too; or
            "alignments", likelihood and attention of a translation.
        shift: labelled sets of other distributions, for the suite "uncertainty".
        sampled: evaluate samples of attention or dropout, for the suite "uncertainty".
        ensemble: configuration whose trained models, one for each seed, are the members of an ensemble; this run then
            trains nothing.
        start: configuration whose trained model, with the same task and seed, is finetuned; its run comes first.
    """

    evaluation_set: str | None = None
    ood: dict | None = None
    teacher_forcing: bool = False
    pilot: bool = False
    suite: str = "methods"
    shift: list[str] | None = None
    sampled: bool = True
    ensemble: str | None = None
    start: str | None = None


EVALUATION = [field.name for field in fields(Evaluation)]


def read(path):
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def planned_runs(grid):
    """Return the runs of the plan in their order.

    Raises:
        ValueError: if a run is planned twice.
    """
    runs = [
        PlannedRun(*run) for row in grid["plan"] for run in product(row["tasks"], row["configurations"], row["seeds"])
    ]
    for run, count in Counter(runs).items():
        if count > 1:
            raise ValueError(f"plan: {run} is planned {count} times; remove it from all rows but one.")
    return runs


def in_order(records, grid):
    """Return records in the order in which the plan names tasks and configurations, then by seed."""
    tasks, configurations = [*grid["tasks"]], [*grid["configurations"]]
    return sorted(
        records, key=lambda own: (tasks.index(own["task"]), configurations.index(own["configuration"]), own["seed"])
    )


def settings(grid, run, data_dir):
    """Return the settings of a run: those of all runs, of its task and of its configuration; later ones override."""
    configuration = dict(grid["configurations"][run.configuration])
    by_task = configuration.pop("by_task", {})
    start = {"task_name": run.task, "seed": run.seed}
    merged = merge(start, grid["common"], grid["tasks"][run.task], configuration, by_task.get(run.task, {}))
    data = merged.pop("data", None)
    return merged if data is None else merged | {"data_dir": str(Path(data_dir, data))}


def without_paths(values):
    """Return the settings that do not depend on the machine."""
    return {name: value for name, value in values.items() if name != "data_dir"}


def split(values):
    """Return the settings of the evaluation, and those of the training."""
    evaluation = Evaluation(**{name: values[name] for name in EVALUATION if name in values})
    return evaluation, {name: value for name, value in values.items() if name not in EVALUATION}
