"""Model, model card and report of a run, and their upload to the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import is_patched, push_to_hub
from ..evaluation import tables
from ..integrations.cards import model_card
from ..tasks.base import Task
from .building import PACKAGED
from .results import Result
from .settings import Job
from .uncertainty import Uncertainty


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


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save the model and its tokenizer for `from_pretrained`."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def card(result: Result, model: PreTrainedModel, job: Job, task: Task, repo_id: str | None) -> str | None:
    """Return the text of the model card; None for plain models."""
    if not is_patched(model):
        return None
    parts = [f"### {name}\n\n{tables.as_markdown(table)}" for name, table in result.uncertainty.items()]
    scores = {f"{name} {score}": value for name, own in result.scores.items() for score, value in own.items()}
    named = {name: value for name, value in job.to_dict().items() if name not in ("bam", "data_dir", "options")}
    unnamed = job.model_name_or_path in PACKAGED or task.new_config(job.model_name_or_path) is not None
    text = model_card(
        model,
        repo_id=repo_id,
        base_model=None if unnamed else job.model_name_or_path,
        metrics=scores,
        dataset=result.name,
        report="\n".join(["## Uncertainty\n", *parts]) if parts else None,
        training={name: value for name, value in named.items() if value is not None},
    )
    return str(text)


def push(model: Any, tokenizer: PreTrainedTokenizerBase, repo_id: str, text: str | None) -> str:
    """Upload the model, its tokenizer and its card, and return their address."""
    if is_patched(model):
        return push_to_hub(model, repo_id, tokenizer=tokenizer, card=text)
    tokenizer.push_to_hub(repo_id)
    return str(model.push_to_hub(repo_id))
