"""Callback for transformers' `Trainer`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..patching import set_step


class BamCallback(TrainerCallback):
    """Callback that keeps the annealing of the KL weight at the Trainer's global step.

    Needed where hf_bam does not see the optimizer steps, because the optimizer holds other tensors than the model
    (with DeepSpeed, for instance); harmless everywhere else.
    """

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        set_step(kwargs["model"], state.global_step)
