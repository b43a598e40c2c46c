"""How a model is finetuned: numbers, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import BamConfig, from_fields

PRECISIONS = ("fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run, whatever its task.

    Frozen and checked: a wrong value raises a `ValueError` that names the field, the value and what it may be.
    """

    learning_rate: float = 5e-5
    """Highest learning rate."""
    prior_learning_rate: float | None = None
    """Highest learning rate of the prior network, which is not pretrained; None: as for the rest."""
    batch_size: int = 32
    """Examples of an optimizer step, over all processes and accumulated batches."""
    gradient_accumulation_steps: int = 1
    """Batches into which every process cuts its share of a step, to save memory."""
    num_train_epochs: float = 3.0
    """Passes over the training rows."""
    max_steps: int | None = None
    """Optimizer steps, instead of epochs."""
    warmup_steps: float = 0.06
    """Steps in which the learning rate rises, before it falls to 0; below 1: their share of all steps."""
    weight_decay: float = 0.01
    """AdamW's, not for biases and norms."""
    max_grad_norm: float | None = 1.0
    """Largest norm of the gradient."""
    max_length: int = 128
    """Tokens of an input; longer ones are cut, or divided by tasks that can."""
    dropout: float | None = None
    """Dropout in the model's layers; None: what its config says."""
    classifier_dropout: float | None = None
    """Dropout before the classifier; None: what the model's config says."""
    precision: str = "fp32"
    """"fp32", or mixed precision: "bf16", "fp16"."""
    freeze_embeddings: bool = False
    """Leave the word embeddings as they are: less memory and time."""
    gradient_checkpointing: bool = False
    """Gradient checkpointing: less memory for more time, where the model has it."""
    group_by_length: bool = True
    """Batches of similar length, so that little is padded."""
    eval_steps: int | None = None
    """Optimizer steps between evaluations; None: an epoch."""
    eval_rows: int | None = None
    """How many rows of the first evaluation set choose the best checkpoint; None: all."""
    per_device_eval_batch_size: int = 64
    """Examples of an evaluation batch, on every process."""
    early_stopping_patience: int | None = None
    """Evaluations without a better score after which training ends early; None: it does not."""
    save_steps: int = 500
    """Optimizer steps between checkpoints; there is one at each better evaluation besides."""
    save_total_limit: int = 1
    """How many of the latest checkpoints are kept, besides the best one."""
    logging_steps: int = 10
    """Optimizer steps between lines of the log."""
    num_samples: int = 32
    """Draws for each input when the doubt of the trained model is measured; 0: not at all."""
    uncertainty_rows: int | None = None
    """How many rows of an evaluation set the doubt is measured on; None: all."""
    dataloader_num_workers: int = 0
    """Processes that prepare batches beside each training process."""
    lora_rank: int = 8
    """Rank of the adapters with LoRA."""
    lora_alpha: float = 16.0
    """Their scale, divided by the rank."""
    bam: BamConfig = field(default_factory=BamConfig)
    """The attention; also a mapping of fields of `BamConfig`, with `preset` for a named one."""

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            object.__setattr__(self, name, limit.check(name, getattr(self, name)))
        if self.precision not in PRECISIONS:
            raise _error("precision", self.precision, "one of " + ", ".join(map(repr, PRECISIONS)))
        for name in ("freeze_embeddings", "gradient_checkpointing", "group_by_length"):
            if not isinstance(getattr(self, name), bool):
                raise _error(name, getattr(self, name), "True or False")
        if not isinstance(self.bam, BamConfig):
            object.__setattr__(self, "bam", bam_config(self.bam))

    def replace(self, **changes: Any) -> Recipe:
        """A copy with some fields changed; `num_train_epochs` takes the place of `max_steps`."""
        changes = by_epochs_or_steps(changes)
        return Recipe.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values that YAML and JSON can hold."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {**values, "bam": self.bam.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The inverse of `to_dict`; fields that are left out get their defaults, unknown ones are an error."""
        return from_fields(cls, values)


def by_epochs_or_steps(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to other values, in which num_train_epochs also removes max_steps, which would win otherwise."""
    values = dict(values)
    if values.get("num_train_epochs") is not None:
        if values.get("max_steps") is not None:
            both = f"num_train_epochs={values['num_train_epochs']!r} and max_steps={values['max_steps']!r}"
            raise ValueError(f"{both} are both given; leave one of them out.")
        values["max_steps"] = None
    return values


def bam_config(values: Any) -> BamConfig:
    """Settings from a mapping of fields, on top of the preset that it may name."""
    if not isinstance(values, Mapping):
        raise _error("bam", values, "a BamConfig or a mapping of its fields")
    rest = {name: value for name, value in values.items() if name != "preset"}
    base = BamConfig.preset(values["preset"]) if values.get("preset") is not None else BamConfig()
    return base.replace(**rest)


@dataclass(frozen=True)
class Limit:
    """What a number may be."""

    least: float
    most: float = math.inf
    whole: bool = False
    above: bool = False
    """Whether it has to be above `least`."""
    optional: bool = False

    def check(self, name: str, value: Any) -> float | int | None:
        if self.optional and value in (None, "none"):
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or (self.whole and value != int(value)):
            raise _error(name, value, self.words())
        if not self.least <= value <= self.most or (self.above and value == self.least):
            raise _error(name, value, self.words())
        return int(value) if self.whole else float(value)

    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = f"above {self.least:g}" if self.above else f"{self.least:g} or above"
        high = "" if math.isinf(self.most) else f", {self.most:g} at most"
        return f"{kind}, {low}{high}{', or none' if self.optional else ''}"


LIMITS = {
    "learning_rate": Limit(0, above=True),
    "prior_learning_rate": Limit(0, above=True, optional=True),
    "batch_size": Limit(1, whole=True),
    "gradient_accumulation_steps": Limit(1, whole=True),
    "num_train_epochs": Limit(0, above=True),
    "max_steps": Limit(1, whole=True, optional=True),
    "warmup_steps": Limit(0),
    "weight_decay": Limit(0),
    "max_grad_norm": Limit(0, above=True, optional=True),
    "max_length": Limit(8, whole=True),
    "dropout": Limit(0, 1, optional=True),
    "classifier_dropout": Limit(0, 1, optional=True),
    "eval_steps": Limit(1, whole=True, optional=True),
    "eval_rows": Limit(1, whole=True, optional=True),
    "per_device_eval_batch_size": Limit(1, whole=True),
    "early_stopping_patience": Limit(1, whole=True, optional=True),
    "save_steps": Limit(1, whole=True),
    "save_total_limit": Limit(1, whole=True),
    "logging_steps": Limit(1, whole=True),
    "num_samples": Limit(0, whole=True),
    "uncertainty_rows": Limit(1, whole=True, optional=True),
    "dataloader_num_workers": Limit(0, whole=True),
    "lora_rank": Limit(1, whole=True),
    "lora_alpha": Limit(0, above=True),
}


def _error(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"Recipe.{name}={value!r} is not valid; it must be {wanted}.")
