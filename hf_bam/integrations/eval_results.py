"""Scores on data sets of the Hub: for the header of a model card, and as files in `.eval_results`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from huggingface_hub import EvalResult

FOLDER = ".eval_results"
"""Folder of a repository from which the Hub reads scores; each file is a list of entries."""
METRICS = {
    "accuracy": "accuracy",
    "f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "exact": "exact_match",
    "exact_match": "exact_match",
    "bleu": "bleu",
    "chrf": "chrf",
    "ter": "ter",
}
"""Names of metrics on the Hub by names of scores. Others are not listed."""


@dataclass(frozen=True)
class HubScore:
    """Score of a model on a split of a data set of the Hub.

    Attributes:
        dataset: id of the data set, such as "nyu-mll/glue".
        config: name of its configuration, such as "mrpc".
        split: name of the split on the Hub.
        metric: name of the score, see `METRICS`.
        main: the score by which the task is judged.
    """

    dataset: str
    config: str
    split: str
    metric: str
    value: float
    main: bool = False

    @property
    def is_listed(self) -> bool:
        return self.metric in METRICS and math.isfinite(self.value)


def header_results(scores: Sequence[HubScore], task: str) -> list[EvalResult]:
    """Return scores for the header of a card.

    Args:
        task: name of the task on the Hub, such as "text-classification".
    """
    return [
        EvalResult(
            task_type=task,
            dataset_type=score.dataset,
            dataset_name=f"{score.dataset} {score.config}",
            dataset_config=score.config,
            dataset_split=score.split,
            metric_type=METRICS[score.metric],
            metric_value=float(score.value),
        )
        for score in scores
        if score.is_listed
    ]


def eval_results_yaml(scores: Sequence[HubScore], date: str, notes: str = "") -> str | None:
    """Return the content of a file in `.eval_results`: an entry for the main score of each split; None without any.

    Args:
        date: day of the evaluation, as YYYY-MM-DD.
        notes: how the model was evaluated.
    """
    entries: list[dict[str, Any]] = [
        {
            "dataset": {"id": score.dataset, "task_id": score.config},
            "value": float(score.value),
            "date": date,
            "notes": ", ".join(filter(None, [METRICS[score.metric], f"split {score.split}", notes])),
        }
        for score in scores
        if score.main and score.is_listed
    ]
    return yaml.safe_dump(entries, sort_keys=False) if entries else None
