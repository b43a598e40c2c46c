"""Named settings: the paper's variants and the attention part of its finetuning recipes, as data."""

from __future__ import annotations

from typing import Any

VARIANTS: dict[str, dict[str, Any]] = {
    "bam-wc": {"family": "weibull", "prior": "contextual"},
    "bam-wf": {"family": "weibull", "prior": "fixed"},
    "bam-lc": {"family": "lognormal", "prior": "contextual"},
    "bam-lf": {"family": "lognormal", "prior": "fixed"},
    "bam-nokl": {"family": "weibull", "prior": "none"},
}
"""The variants of Fan et al. (2020) with our defaults for everything that they leave open."""

_PAPER: dict[str, Any] = {
    "family": "weibull",
    "prior": "contextual",
    "prior_shape": "psi",
    "beta": 1e-2,
    "d_mid": 5,
    "kl_weight": 1.0,
}

_TABLE_9_K = {
    "cola": 10.0,
    "sts-b": 20.0,
    "sst-2": 1000.0,
    "mnli": 5.0,
    "qnli": 500.0,
    "qqp": 1000.0,
    "rte": 1000.0,
    "mrpc": 100.0,
    "squad-1.1": 10.0,
    "squad-2.0": 2000.0,
}

TABLE_9: dict[str, dict[str, Any]] = {task: {**_PAPER, "k": k} for task, k in _TABLE_9_K.items()}
"""Values of the paper (Table 9, ALBERT-base). With its beta the prior learns nothing, see docs/howto/settings.md."""

PRESETS = VARIANTS | TABLE_9
