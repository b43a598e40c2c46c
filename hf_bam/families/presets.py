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

_FLAT: dict[str, Any] = {"family": "lognormal", "prior_location": "median", "sigma_prior": 1e15}
_GRAPH: dict[str, Any] = {"kl_weight": 1.0, "annealing": "sigmoid", "annealing_rate": 0.1}


def _graph(k: float, beta: float, beta_fixed: float, alpha: float) -> dict[str, dict[str, Any]]:
    """Return the variants on one graph, by the end of their names."""
    weibull = {**_GRAPH, "family": "weibull", "k": k}
    return {
        "nokl": {**weibull, "prior": "none"},
        "lf": {**_GRAPH, **_FLAT, "sigma": 1e-6, "prior": "fixed"},
        "lc": {**_GRAPH, **_FLAT, "sigma": 1e-15, "prior": "contextual", "d_mid": 1},
        "wf": {**weibull, "beta": beta_fixed, "alpha": alpha, "annealing_rate": 0.2, "prior": "fixed"},
        "wc": {**weibull, "beta": beta, "prior": "contextual", "d_mid": 1},
    }


_TABLE_1 = {
    "cora": _graph(k=1.0, beta=1e-10, beta_fixed=1e-10, alpha=1e-15),
    "citeseer": _graph(k=100.0, beta=1e-15, beta_fixed=1e-15, alpha=1e-15),
    "pubmed": _graph(k=10.0, beta=1e-4, beta_fixed=1e-8, alpha=1e-4),
}

TABLE_1: dict[str, dict[str, Any]] = {
    f"{graph}-{name}": values for graph, variants in _TABLE_1.items() for name, values in variants.items()
}
"""The paper's own values on graphs (Table 1); where it names none, those of Cora. See docs/guides/graphs.md."""

PRESETS = VARIANTS | TABLE_9 | TABLE_1
