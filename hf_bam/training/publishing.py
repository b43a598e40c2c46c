"""Model, model card and report of a run, and their upload to the Hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
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


def write_reports(findings: Mapping[str, Uncertainty], folder: Path) -> list[Path]:
    """Write a report for every classification set; none if matplotlib is not installed."""
    try:
        from ..evaluation.report import report
    except ImportError:
        return []
    return [
        report(finding.comparison, folder / name, f"Predictions and their uncertainty: {name}")
        for name, finding in findings.items()
        if finding.comparison is not None
    ]


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str | None, folder: Path) -> None:
    """Save the model, its tokenizer and the text of its card for `from_pretrained`."""

    def write(unfinished: Path) -> None:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        if text is not None:
            (unfinished / "README.md").write_text(text, encoding="utf-8")

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
