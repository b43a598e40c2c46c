"""Identity of a run: its settings, and fingerprints of its data and its fixed weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import torch
from datasets import Dataset
from torch import nn

from ..fields import shown
from .compatibility import ADDED, present_settings

BATCH = 1000
"""Rows that are hashed together; a fingerprint depends on it."""
MEASURED = frozenset({"num_samples", "uncertainty_rows"})
"""Fields of a recipe that change the results, but not the weights."""
FREE = MEASURED | {
    "dataloader_num_workers",
    "fit_rows",
    "logging_steps",
    "per_device_eval_batch_size",
    "save_steps",
    "save_total_limit",
}
"""Fields of a recipe that do not change the weights, so that a resumed run may have other values."""


def fingerprint(rows: Dataset) -> str:
    """Return a digest of the columns, the class names and all rows in their order, wherever they are stored."""
    classes = {name: getattr(kind, "names", None) for name, kind in rows.features.items()}
    digest = hashlib.sha256(_bytes(classes))
    for batch in rows.with_format("arrow").iter(batch_size=BATCH):
        digest.update(_bytes(batch.to_pydict()))
    return digest.hexdigest()[:16]


def frozen(model: nn.Module) -> str:
    """Return a digest of the parameters that are not trained; checkpoints do not contain them."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            digest.update(_bytes([name, str(parameter.dtype), *parameter.shape]))
            digest.update(parameter.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _bytes(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, default=repr).encode()


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under their present names, without those that do not change the results.

    These are the folder of the data, and num_train_epochs beside max_steps.
    """
    settings = present_settings(settings)
    unused = {"data_dir", *(["num_train_epochs"] if settings.get("max_steps") is not None else [])}
    return {name: value for name, value in settings.items() if name not in unused}


def check_same(place: Any, before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()) -> None:
    """Raise `ValueError` if an earlier run has other settings than this one; the error names the first difference.

    Args:
        place: file or folder of the earlier run.
        free: names whose values may differ.
    """
    both = ({**ADDED, **comparable(own)} for own in (before, now))
    earlier, present = ({name: value for name, value in own.items() if name not in free} for own in both)
    name, one, other = _difference(earlier, present)
    if name:
        raise ValueError(
            f"{place} was made with {name}={shown(one)}, and this run has {shown(other)}; resume with the same "
            "settings and data, choose another folder, or remove the earlier run: overwrite_output_dir=True "
            "(--overwrite_output_dir)."
        )


def _difference(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> tuple[str, Any, Any]:
    """Return the first name with different values in two mappings, and the values; an empty name for none."""
    for name in {**now, **before}:
        one, other = before.get(name), now.get(name)
        if one != other:
            if isinstance(one, Mapping) and isinstance(other, Mapping):
                return _difference(one, other, f"{within}{name}.")
            return f"{within}{name}", one, other
    return "", None, None
