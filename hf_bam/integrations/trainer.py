"""Integration with transformers' `Trainer`: a loss over several samples, and wrappers of its methods.

The wrappers take the wrapped method first; see [`install`][hf_bam.integrations.install.install].
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from ..patching import backward
from ..patching.state import find_patches, patch_of
from . import serialization
from .samples import SampleLoss

Method = Callable[..., Any]


class SamplingTrainerMixin:
    """Part of a `Trainer` whose loss has several samples of each batch, for patched models and for dropout.

    `class SamplingTrainer(SamplingTrainerMixin, Trainer): ...` has two more arguments, and so has a subclass of
    `Seq2SeqTrainer`. Samples go through the model in one forward pass over an expanded batch. Evaluation is not
    changed.

    Args:
        consistency: weight of the symmetric KL between the predictions of two samples of the same batch.
        num_train_samples: samples per example, M, in the bound ``-log mean_m p(y | x, W_m)``.
    """

    def __init__(self, *args: Any, consistency: float = 0.0, num_train_samples: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        trainer: Any = self
        self.samples = SampleLoss(trainer.model, consistency, num_train_samples)
        if self.samples.copies == 1:
            return
        theirs = {"label_smoothing_factor": trainer.label_smoother, "compute_loss_func": trainer.compute_loss_func}
        for name in (name for name, loss in theirs.items() if loss is not None):
            raise ValueError(
                f"{name} and consistency={consistency} or num_train_samples={num_train_samples} cannot be combined: "
                "each has a loss of its own."
            )
        trainer.model_accepts_loss_kwargs = False  # the loss is a mean, to be divided by the accumulation steps

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Any]:
        """Return the loss over several samples, with the KL of the attention once."""
        if self.samples.copies == 1 or not model.training:
            parent: Any = super()
            return parent.compute_loss(model, inputs, return_outputs, **kwargs)
        outputs = model(**self.samples.expand(inputs))
        terms = self.samples.terms(outputs, inputs)
        loss = terms.task_loss + self.samples.consistency * terms.consistency
        for patch in find_patches(model) if self.samples.consistency else ():
            patch.runtime.meter.add(consistency=terms.consistency)
        loss = loss + outputs.kl_loss if "kl_loss" in outputs else loss
        return (loss, outputs) if return_outputs else loss


def load_from_checkpoint(method: Method, trainer: Any, directory: str, model: nn.Module | None = None) -> None:
    """Load a checkpoint together with its prior and annealing step."""
    method(trainer, directory, model)
    restore(trainer, trainer.model if model is None else model, directory)


def load_best_model(method: Method, trainer: Any) -> None:
    """Load the best checkpoint together with its prior and annealing step."""
    method(trainer)
    restore(trainer, trainer.model, trainer.state.best_model_checkpoint)


def restore(trainer: Any, model: nn.Module, directory: str) -> None:
    """Load the prior and the step of a checkpoint; FSDP, DeepSpeed and other modules have them in their own files."""
    path = os.path.join(directory, serialization.FILE)
    if not find_patches(model) or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return
    if os.path.exists(path):
        serialization.copy_tensors(model, serialization.read(path))
    elif isinstance(model, PreTrainedModel) or hasattr(model, "get_base_model"):  # or one of PEFT
        raise FileNotFoundError(
            f"{path} is missing: the checkpoint has no prior network and no annealing step, and training would go on "
            "with new ones. Was the model patched when it was saved?"
        )


def log(method: Method, trainer: Any, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
    """Log the terms of the loss beside it: their means since the last log."""
    # The Trainer's own logs have these two together, on all processes at once.
    if find_patches(trainer.model) and {"loss", "learning_rate"} <= logs.keys():
        means = patch_of(trainer.model).runtime.meter.pop()
        for name, value in means.items():
            logs[name] = trainer.accelerator.gather(value).mean().item()
    method(trainer, logs, *args, **kwargs)


def training_step(method: Method, trainer: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Run a training step with the scale of its loss known to the backward pass, for a loss without the KL."""
    steps = getattr(trainer, "current_gradient_accumulation_steps", trainer.args.gradient_accumulation_steps)
    scaler = trainer.accelerator.scaler
    with backward.scaled((1.0 if scaler is None else scaler.get_scale()) / steps):
        return method(trainer, *args, **kwargs)


def create_model_card(method: Method, trainer: Any, *args: Any, **kwargs: Any) -> None:
    """Write Trainer's model card with the tags of the patched model."""
    call = inspect.signature(method).bind(trainer, *args, **kwargs)
    for patch in find_patches(trainer.model):
        given = call.arguments.get("tags") or []
        tags = [given] if isinstance(given, str) else list(given)
        own = getattr(patch.root, "model_tags", None) or []
        call.arguments["tags"] = list(dict.fromkeys([*tags, *own]))
    method(*call.args, **call.kwargs)
