"""Model, model card and report of a run, and their upload to the Hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from .. import is_patched, push_to_hub
from ..evaluation import tables
from ..integrations.cards import model_card
from ..integrations.eval_results import METRICS, HubScore, eval_results_yaml
from ..integrations.hub import write_attachments
from ..tasks.base import Task
from .building import PACKAGED_FROM
from .results import Result, Trained
from .settings import Job
from .uncertainty import Uncertainty

NO_EFFECT = (
    "eval_rows",
    "per_device_eval_batch_size",
    "save_steps",
    "save_total_limit",
    "logging_steps",
    "uncertainty_rows",
    "dataloader_num_workers",
    "eval_limit",
    "num_samples",
    "fit_rows",
)
"""Settings of a run that have no effect on the weights of the model."""
OFF_AT_ZERO = ("consistency", "ensemble_checkpoints")
"""Settings of a run that turn something off by the value 0."""


def write_reports(findings: Mapping[str, Uncertainty], folder: Path, job: Job) -> list[Path]:
    """Write a report for every set; none if matplotlib is not installed."""
    try:
        from ..evaluation.report import report
    except ImportError:
        return []
    return [
        report(found, folder / name, f"Predictions and their uncertainty: {name}", about=about(job, name))
        for name, finding in findings.items()
        if (found := finding.comparison or finding.findings) is not None
    ]


def about(job: Job, name: str) -> dict[str, Any]:
    """Return what a report on one set is about."""
    data = f"{job.task_name}, {name}" + ("" if job.data_dir is None else f", from {job.data_dir}")
    return {"model": job.model_name_or_path, "attention": job.attention, "data": data, "seed": job.seed}


def save_model(trained: Trained, card: Card | None, folder: Path) -> None:
    """Save the model, its tokenizer, what was fitted, and its card for `from_pretrained`."""

    def write(unfinished: Path) -> None:
        (trained.predictor or trained.model).save_pretrained(unfinished)
        trained.tokenizer.save_pretrained(unfinished)
        if card is not None:
            card.write(unfinished)

    replace_folder(folder, write)


def replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder in the place of an earlier one, as a whole or not at all."""
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        write(unfinished)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


@dataclass(frozen=True)
class Card:
    """Model card of a run, with the files that belong to it.

    Attributes:
        figures: image files of the report on the first set.
        eval_results: scores for the Hub as YAML; None if the data are not those of the Hub.
    """

    text: str
    figures: list[Path]
    eval_results: str | None

    def write(self, folder: Path) -> None:
        """Write the card and its files to the folder of a model."""
        (folder / "README.md").write_text(self.text, encoding="utf-8")
        write_attachments(folder, self.figures, self.eval_results)


def card(
    result: Result, model: PreTrainedModel, job: Job, task: Task, repo_id: str | None, pages: Sequence[Path] = ()
) -> Card | None:
    """Return the model card; None for plain models.

    Args:
        pages: reports of the run, of which the first gives the figures.
    """
    if not is_patched(model):
        return None
    predictor = None if result.trained is None else result.trained.predictor
    parts = [f"### {name}\n\n{tables.as_markdown(table)}" for name, table in result.uncertainty.items()]
    metrics = {f"{name} {score}": value for name, own in result.scores.items() for score, value in own.items()}
    scores = hub_scores(result, job, task)
    figures = sorted((pages[0].parent / "figures").glob("*.png")) if pages else []
    text = model_card(
        model,
        repo_id=repo_id,
        base_model=base_model(job, task),
        metrics=metrics,
        dataset=f"{task.hub_data.id} {task.hub_data.config}" if scores and task.hub_data else result.name,
        report="\n".join(["## Uncertainty\n", *parts]) if parts else None,
        figures=figures,
        training=training_settings(job),
        scores=scores,
        pairs=reads_pairs(result, task),
        calibration=None if predictor is None else predictor.describe(),
    )
    date = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    return Card(str(text), figures, eval_results_yaml(scores, date, "mean attention, hf_bam"))


def base_model(job: Job, task: Task) -> str | None:
    """Return the name of the model that was finetuned; None for one from scratch."""
    if task.new_config(job.model_name_or_path) is not None:
        return None
    return PACKAGED_FROM.get(job.model_name_or_path, job.model_name_or_path)


def hub_scores(result: Result, job: Job, task: Task) -> list[HubScore]:
    """Return the scores on whole splits of the Hub; none for data of a folder, and for a part of the rows."""
    data = task.hub_data
    if data is None or job.data_dir is not None or job.eval_limit is not None or job.limit is not None:
        return []
    found = []
    for name, own in result.scores.items():
        known = [score for score in (task.metric, *own) if score in METRICS]
        for score, value in own.items() if name in data.splits else ():
            main = score == next(iter(known), None)
            found.append(HubScore(data.id, data.config, data.splits[name], score, value, main))
    return found


def training_settings(job: Job) -> dict[str, Any]:
    """Return the settings of a run that had an effect on the model."""
    values = job.to_dict()
    left_out = {"bam", "data_dir", "options", *NO_EFFECT, *(name for name in OFF_AT_ZERO if not values.get(name))}
    left_out |= {"lora_rank", "lora_alpha"} if not job.lora else set()
    left_out |= {"ensemble_tail"} if not values.get("ensemble_checkpoints") else set()
    if Path(job.model_name_or_path).is_dir():  # a folder of this machine means nothing to others
        values["model_name_or_path"] = Path(job.model_name_or_path).name
    used = {name: value for name, value in values.items() if name not in left_out}
    return {name: value for name, value in used.items() if value is not None and value is not False}


def reads_pairs(result: Result, task: Task) -> bool:
    """Return whether an input of the task is a pair of texts."""
    if result.trained is None:
        return False
    rows = next(iter(result.trained.data.evaluation.values()))
    return isinstance(task.inputs(rows.select([0]))[0], tuple) if len(rows) else False


def push(trained: Trained, repo_id: str, made: Card | None) -> str:
    """Upload the model, its tokenizer, what was fitted and its card with its files, and return their address."""
    model: Any = trained.model
    if made is not None:
        files: dict[str, Any] = {"figures": made.figures, "eval_results": made.eval_results}
        fitted: dict[str, Any] = {"predictor": trained.predictor, "tokenizer": trained.tokenizer}
        return push_to_hub(model, repo_id, card=made.text, **fitted, **files)
    trained.tokenizer.push_to_hub(repo_id)
    return str(model.push_to_hub(repo_id))
