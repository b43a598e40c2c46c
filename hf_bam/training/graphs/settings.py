"""Settings of a run on a graph."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from ...config import BamConfig, for_family
from ...families.presets import TABLE_1
from ...fields import check_fields, setting

DATASETS = ("cora", "citeseer", "pubmed")
PLAIN, DEFAULT = "gat", "bam"
VARIANTS = (PLAIN, "nokl", "lf", "lc", "wf", "wc", DEFAULT)
"""Plain attention; the variants of the paper: no KL, Lognormal and Weibull, each with a fixed and a contextual prior;
and the defaults of hf_bam."""
PUBLISHED_RULE, LOWEST_LOSS = "published", "loss"
SELECTIONS = (PUBLISHED_RULE, LOWEST_LOSS)
LAYERS = ("GATConv", "GATv2Conv")

PUBLISHED: dict[str, dict[str, Any]] = {
    "cora": {"learning_rate": 0.005, "weight_decay": 5e-4, "output_heads": 1},
    "citeseer": {"learning_rate": 0.005, "weight_decay": 5e-4, "output_heads": 1},
    "pubmed": {"learning_rate": 0.01, "weight_decay": 1e-3, "output_heads": 8},
}
"""Settings of GAT's published code that depend on the graph."""


@dataclass(frozen=True)
class GraphJob:
    """One run: a graph, a variant and a seed. The defaults are those of GAT's published code."""

    dataset: str = setting("cora", choices=DATASETS)
    """Citation graph."""
    variant: str = setting("wc", choices=VARIANTS)
    """`"gat"`: plain attention; `"nokl"`: Weibull noise without a KL; `"lf"`, `"lc"`, `"wf"`, `"wc"`: Lognormal or
    Weibull with a fixed or a contextual prior, all with the paper's settings for the graph; `"bam"`: the defaults of
    hf_bam."""
    bam: dict[str, Any] = field(default_factory=dict)
    """Fields of `BamConfig` that replace those of the variant. Those that its family does not have are left out."""
    seed: int = setting(0, least=0, most=2**32 - 1)
    """Seed of weights, dropout and noise."""
    layer: str = setting("GATConv", choices=LAYERS)
    """Graph layer of PyTorch Geometric."""
    channels: int = setting(8, least=1, most=2**16)
    """Size of a head of the first layer."""
    heads: int = setting(8, least=1, most=1024)
    """Heads of the first layer, which are concatenated."""
    output_heads: int | None = setting(None, least=1, most=1024)
    """Heads of the second layer, which are averaged. none: 1, and 8 for pubmed."""
    dropout: float = setting(0.6, least=0, below=1)
    """Dropout rate of the inputs of both layers and of their attention weights."""
    learning_rate: float | None = setting(None, above=0, most=1e3)
    """Learning rate of Adam. none: 0.005, and 0.01 for pubmed."""
    weight_decay: float | None = setting(None, least=0, most=1e3)
    """L2 regularisation of all weights. none: 0.0005, and 0.001 for pubmed."""
    patience: int = setting(100, least=1)
    """Epochs without a validation accuracy or loss as good as the best one, after which training stops."""
    selection: str = setting(PUBLISHED_RULE, choices=SELECTIONS)
    """Epoch whose weights are kept: `"published"`: the last one at which both validation accuracy and loss are as good
    as the best so far, as in GAT's published code; `"loss"`: the one with the lowest validation loss."""
    max_epochs: int = setting(10_000, least=1)
    """Epochs at most."""
    num_samples: int = setting(32, least=2, most=10**6)
    """Samples of the predictions of which the uncertainty is measured."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in PUBLISHED[self.dataset].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self.bam_config()  # checks its settings

    def bam_config(self) -> BamConfig | None:
        """Return the settings of Bayesian attention; None for plain attention."""
        if self.variant == PLAIN:
            return None
        config = BamConfig(**TABLE_1.get(f"{self.dataset}-{self.variant}", {}))
        family = self.bam.get("family", config.family)
        return config.replace(**for_family(family, self.bam))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, with all those of Bayesian attention."""
        config = self.bam_config()
        return {**dataclasses.asdict(self), "bam": None if config is None else config.to_dict()}
