"""Settings of a training run, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import BamConfig
from ..fields import check_fields, from_fields, setting, shown, type_name


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run, whatever its task.

    Frozen and checked: a wrong value raises a `ValueError` that names the field, the value and what it may be.
    """

    learning_rate: float = setting(5e-5, above=0, most=1e3)
    """Peak learning rate of AdamW."""
    prior_learning_rate: float | None = setting(None, above=0, most=1e3)
    """Peak learning rate of the prior network, which is not pretrained. none: the same as learning_rate."""
    batch_size: int = setting(32, least=1, most=2**20)
    """Examples per optimizer step, over all processes and accumulated batches."""
    gradient_accumulation_steps: int = setting(1, least=1, most=2**20)
    """Forward passes into which each process divides its part of batch_size, to save memory."""
    num_train_epochs: float = setting(3.0, above=0, most=1e6)
    """Passes over the training rows."""
    max_steps: int | None = setting(None, least=1, most=10**9)
    """Optimizer steps in total, instead of num_train_epochs."""
    warmup_steps: float = setting(0.06, least=0, most=1e9)
    """Optimizer steps of linear warmup, after which the learning rate decays linearly to 0. Below 1: a fraction of all
    steps."""
    weight_decay: float = setting(0.01, least=0, most=1e3)
    """Weight decay of AdamW, on all weights except biases and norms."""
    max_grad_norm: float | None = setting(1.0, above=0, most=1e9)
    """Norm to which the gradient is clipped. none: no clipping."""
    max_length: int = setting(128, least=8, most=2**20)
    """Tokens per input. Longer inputs are truncated; question answering splits them into windows."""
    dropout: float | None = setting(None, least=0, below=1)
    """Dropout rate in the layers of the model. none: the rate in the model's config."""
    classifier_dropout: float | None = setting(None, least=0, below=1)
    """Dropout rate before the classifier. none: the rate in the model's config."""
    precision: str = setting("fp32", choices=("fp32", "bf16", "fp16"))
    """Single precision (fp32) or mixed precision (bf16, fp16)."""
    freeze_embeddings: bool = False
    """Do not train the word embeddings, to save memory and time."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass, to save memory at the cost of time."""
    group_by_length: bool = True
    """Put examples of similar length into one batch, to save padding."""
    eval_steps: int | None = setting(None, least=1)
    """Optimizer steps between evaluations. none: one evaluation per epoch."""
    eval_rows: int | None = setting(None, least=1)
    """Rows of the first evaluation set that select the best checkpoint. none: all rows."""
    per_device_eval_batch_size: int = setting(64, least=1, most=2**20)
    """Examples per evaluation batch on each process."""
    early_stopping_patience: int | None = setting(None, least=1)
    """Evaluations without a better score after which training stops. none: no early stopping."""
    consistency: float = setting(0.0, least=0, most=1e6)
    """Weight of the symmetric KL between the predictions of two samples of the same batch. Above 0, an example goes
    through the model twice in one forward pass."""
    num_train_samples: int = setting(1, least=1, most=1024)
    """Samples per training example, M, in the bound -log mean_m p(y | x, W_m). An example goes through the model M
    times in one forward pass."""
    ensemble_checkpoints: int = setting(0, least=0, most=1024)
    """Models to save as members of an ensemble, evenly spaced over the end of training, where the learning rate stays
    constant. 0: no ensemble, and a learning rate that decays to 0."""
    ensemble_tail: float = setting(0.25, above=0, most=1)
    """Fraction of the optimizer steps with a constant learning rate, if there are ensemble_checkpoints."""
    average_checkpoints: bool = False
    """Give the model the mean of the weights of the ensemble_checkpoints, instead of the best weights."""
    save_steps: int = setting(500, least=1)
    """Optimizer steps between checkpoints. Every evaluation with a better score saves one, too."""
    save_total_limit: int = setting(1, least=1)
    """Checkpoints to keep: the latest ones, in addition to the best."""
    logging_steps: int = setting(10, least=1)
    """Optimizer steps between two lines of log.jsonl."""
    num_samples: int = setting(32, least=0, most=10**6)
    """Samples per input when the uncertainty of the trained model is measured. 0: do not measure it."""
    uncertainty_rows: int | None = setting(None, least=1)
    """Rows of each evaluation set on which the uncertainty is measured. none: all rows."""
    fit_rows: int = setting(3000, least=0)
    """Training rows to which the novelty of inputs is fitted at the end, for the model that is saved. Temperature, and
    prediction sets or intervals, are fitted to the first evaluation set. 0, or num_samples of 0: fit nothing."""
    dataloader_num_workers: int = setting(0, least=0, most=1024)
    """Data loader processes for each training process."""
    lora_rank: int = setting(8, least=1, most=2**16)
    """Rank of the LoRA adapters."""
    lora_alpha: float = setting(16.0, above=0, most=1e6)
    """Scale of the LoRA adapters, which is divided by lora_rank."""
    bam: BamConfig = field(default_factory=BamConfig)
    """Settings of Bayesian attention: a `BamConfig`, or a mapping of its fields, with `preset` for a named one."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if "int" in type_name(item) and isinstance(value, float) and value.is_integer():
                object.__setattr__(self, item.name, int(value))  # 1e4 is a float in YAML and on a command line
        check_fields(self)
        if self.ensemble_checkpoints and self.early_stopping_patience is not None:
            raise ValueError(
                f"ensemble_checkpoints={self.ensemble_checkpoints} and early_stopping_patience="
                f"{self.early_stopping_patience} cannot be combined: the members are models of the last steps."
            )
        if self.average_checkpoints and not self.ensemble_checkpoints:
            raise ValueError("average_checkpoints=True and ensemble_checkpoints=0 leave no weights to average.")
        if not isinstance(self.bam, BamConfig):
            object.__setattr__(self, "bam", bam_config(self.bam))

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with some fields changed; `num_train_epochs` replaces `max_steps`."""
        return Recipe.from_dict({**self.to_dict(), **epochs_or_steps(changes)})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values that YAML and JSON can hold."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {**values, "bam": self.bam.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Return the inverse of `to_dict`; fields that are left out get their defaults, unknown ones are an error."""
        return from_fields(cls, values)


def epochs_or_steps(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to settings in which num_train_epochs also clears max_steps, which otherwise takes precedence."""
    changes = dict(changes)
    if changes.get("num_train_epochs") is not None:
        if changes.get("max_steps") is not None:
            both = f"num_train_epochs={shown(changes['num_train_epochs'])} and max_steps={shown(changes['max_steps'])}"
            raise ValueError(f"{both} are both given; leave one of them out.")
        changes["max_steps"] = None
    return changes


def bam_summary(config: BamConfig) -> str:
    """Return the family and the settings that differ from their defaults, in short."""
    usual = BamConfig(family=config.family).to_dict()
    changed = [f"{name}={value}" for name, value in config.to_dict().items() if value != usual[name]]
    return f"BAM ({', '.join([config.family, *changed])})"


def bam_config(values: Any) -> BamConfig:
    """Return settings from a mapping of fields, on top of the preset that it may name."""
    if not isinstance(values, Mapping):
        raise ValueError(
            f"Recipe.bam={shown(values)} is not valid; it must be a BamConfig or a mapping of its fields."
        )
    rest = {name: value for name, value in values.items() if name != "preset"}
    return (BamConfig() if values.get("preset") is None else BamConfig.preset(values["preset"])).replace(**rest)
