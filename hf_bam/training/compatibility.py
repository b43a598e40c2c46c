"""Names that earlier versions wrote to checkpoints, config.yaml and results.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import BamConfig

SETTINGS = {
    "task": "task_name",
    "model": "model_name_or_path",
    "lr": "learning_rate",
    "prior_lr": "prior_learning_rate",
    "accumulation": "gradient_accumulation_steps",
    "epochs": "num_train_epochs",
    "warmup": "warmup_steps",
    "clip": "max_grad_norm",
    "checkpointing": "gradient_checkpointing",
    "buckets": "group_by_length",
    "eval_every": "eval_steps",
    "eval_batch_size": "per_device_eval_batch_size",
    "patience": "early_stopping_patience",
    "save_every": "save_steps",
    "keep": "save_total_limit",
    "log_every": "logging_steps",
    "samples": "num_samples",
    "doubt_rows": "uncertainty_rows",
    "workers": "dataloader_num_workers",
}
"""Fields of a recipe and a job: the earlier name and the present one."""
ADDED = {
    "consistency": 0.0,
    "num_train_samples": 1,
    "ensemble_checkpoints": 0,
    "ensemble_tail": 0.25,
    "average_checkpoints": False,
}
"""Fields of a recipe that earlier versions did not have, with the values by which they trained."""
BAM = frozenset({"k", "sigma", "beta", "alpha", "prior_shape", "sigma_prior"})
"""Settings of Bayesian attention that earlier versions wrote together, whatever the family."""
RESULTS = {"doubt": "uncertainty"}
"""Entries of results.json."""


def present_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a file under their present names, without those of other families than the chosen one."""
    settings = present_names(values)
    bam = settings.get("bam")
    if isinstance(bam, Mapping) and bam.keys() >= BAM:
        settings["bam"] = BamConfig.from_saved(bam).to_dict()
    return settings


def present_names(values: Mapping[str, Any], names: Mapping[str, str] = SETTINGS) -> dict[str, Any]:
    """Return values with every earlier name replaced; a name that is given in both forms is an error."""
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        present = names.get(name, name)
        if present in renamed:
            earlier = next(old for old, new in names.items() if new == present)
            raise ValueError(f"{present} is also given as {earlier}, its earlier name; leave one of them out.")
        renamed[present] = value
    return renamed
