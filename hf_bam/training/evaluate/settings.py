"""Settings of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...fields import check_fields, setting
from ...tasks.readers import ending_of
from ...tasks.tables import FORMATS
from ..compatibility import present_settings
from ..files import read_yaml
from ..folder import CONFIG
from ..settings import Job, resolve

OF_RUN = ("task_name", "options", "data_dir", "max_length", "num_samples", "dropout")
"""Settings that an evaluation takes over from the run that trained the model."""
COLUMNS = {"text_column": "text", "label_column": "label"}
"""Columns of a file, where they are not given."""
LONGEST = 512


@dataclass(frozen=True)
class Evaluation:
    """Data of an evaluation. Each is a file with rows of the task custom, or the name of a set of the task."""

    data: str | None = None
    """File of labelled rows to evaluate on (.csv, .tsv, .json, .jsonl or .parquet), or a set of the task. none: all
    labelled sets of the task."""
    held_out: str | None = None
    """Fit temperatures and prediction sets to these labelled rows, a file or a set. none: to one half of the evaluated
    rows for the other half."""
    train: str | None = None
    """Fit the novelty of inputs to these rows, on which the model was trained, a file or a set."""
    ood: str | None = None
    """Out-of-distribution rows, a file without labels or a set: how well are they recognised?"""
    alpha: float = setting(0.1, above=0, below=1)
    """Share of the prediction sets that may miss the label."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def sources(self) -> list[str]:
        """All files and names of sets."""
        return [own for own in (self.data, self.held_out, self.train, self.ood) if own is not None]


def is_file(source: str | None) -> bool:
    """Return whether a source of rows is a file, by its ending."""
    return source is not None and ending_of(Path(source)) is not None


def make_job(model: str, evaluation: Evaluation, line: dict[str, Any]) -> Job:
    """Return the task and the recipe of an evaluation.

    They are those of the command line, then those of the run that wrote the folder of the model, then defaults. Files
    have rows of the task custom.
    """
    run = settings_of_run(model)
    named = line.get("task_name") or ("custom" if is_file(evaluation.data) else run.get("task_name"))
    if named is None:
        raise ValueError(f"There are no data to evaluate on: give --data with a file ({FORMATS}), or --task_name.")
    if named != run.get("task_name"):
        run = {name: value for name, value in run.items() if name not in ("task_name", "options", "data_dir")}
    usual = {"max_length": LONGEST, "options": COLUMNS if named == "custom" else {}}
    return resolve(usual, run, {**line, "task_name": named, "model_name_or_path": model})


def settings_of_run(model: str) -> dict[str, Any]:
    """Return settings of the run that wrote the folder of a model; none for other folders and for names."""
    path = Path(model).parent / CONFIG
    if not Path(model).is_dir() or not path.is_file():
        return {}
    return {name: value for name, value in present_settings(read_yaml(path)).items() if name in OF_RUN}
