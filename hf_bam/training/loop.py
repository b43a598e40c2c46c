"""The training loop of all tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DistributedType, GradientAccumulationPlugin, send_to_device
from datasets import Dataset
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PreTrainedModel

from .. import get_config, is_patched
from ..integrations.samples import SampleLoss
from ..objective import annealed
from ..objective.samples import IGNORED
from ..tasks.base import Collator
from . import randomness
from .batching import Batches, feature_lengths
from .checkpoints import Checkpoints
from .evaluation import BestModelTracker
from .identity import FREE, fingerprint, frozen
from .logger import TERMS, Log, RunLogger, latent_values
from .members import Members
from .optimization import learning_rate_factor, make_optimizer, set_learning_rate, warmup_steps
from .recipe import Recipe
from .signals import Interrupted, Stop, collected
from .state import CheckpointManager, State

Batch = dict[str, Tensor]
SHARDED = (DistributedType.DEEPSPEED, DistributedType.FSDP, DistributedType.MEGATRON_LM)
"""Ways to train in which a process has a part of the weights or of the optimizer."""


def make_accelerator(recipe: Recipe, **options: Any) -> Accelerator:
    """Return an `Accelerator` with the recipe's accumulation and precision."""
    # Otherwise the precision of the first run would apply to the whole process, and a data loader that was left before
    # its end would count as the end of an accumulation.
    AcceleratorState._reset_state()
    GradientState._reset_state()
    precision = "no" if recipe.precision == "fp32" else recipe.precision
    parts = GradientAccumulationPlugin(recipe.gradient_accumulation_steps)  # a number would yield to the environment
    accelerator = Accelerator(gradient_accumulation_plugin=parts, mixed_precision=precision, **options)
    if precision == "fp16" and accelerator.device.type == "cpu":
        raise ValueError("precision='fp16' is not possible on a CPU: Accelerate would train in fp32. Choose fp32.")
    return whole(accelerator)


def whole(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator whose processes have whole models, as checkpoints and evaluations need them."""
    if accelerator.distributed_type in SHARDED:
        raise ValueError(
            f"Runs of hf-bam train with one process or DDP, not with {accelerator.distributed_type.value}: start them "
            "without that config, or use Trainer or a loop of your own (docs/howto/distributed.md)."
        )
    return accelerator


def train(
    model: PreTrainedModel, features: Dataset, collator: Collator, recipe: Recipe, folder: Path | str, **options: Any
) -> State:
    """Finetune a model in place, patched or not, and leave it with its best weights.

    Args:
        options: `resume=True` resumes from the last checkpoint in the folder, if there is one; without it the
            checkpoints there are removed. Others as for `Loop`.
    """
    resume = options.pop("resume", False)
    return Loop(model, features, collator, recipe, Path(folder), **options).run(resume)


class Loop:
    """A training run in progress.

    Args:
        model: with a head that computes the loss from the labels.
        features: inputs of the collator, with a column `input_ids`.
        folder: for the log and the checkpoints.
        best_model: evaluates the model at intervals and selects the best weights. None: the last weights are kept.
        seed: of the order of the examples and of the noise.
        about: values that a resumed run must share with the interrupted one, besides the recipe; "data" is a
            fingerprint of the features by default.
        log: takes a line of text for every evaluation.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        features: Dataset,
        collator: Collator,
        recipe: Recipe,
        folder: Path,
        *,
        best_model: BestModelTracker | None = None,
        accelerator: Accelerator | None = None,
        seed: int = 0,
        about: dict[str, Any] | None = None,
        log: Log = print,
    ) -> None:
        accelerator = whole(accelerator) if accelerator else make_accelerator(recipe)
        self.features, self.collator, self.recipe, self.folder = features, collator, recipe, folder
        self.accelerator, self.best_model, self.seed, self.log = accelerator, best_model, seed, log
        processes, parts = accelerator.num_processes, recipe.gradient_accumulation_steps
        lengths = feature_lengths(features)
        self.batches = Batches(lengths, recipe.batch_size, parts, processes, seed, recipe.group_by_length)
        self.total = recipe.max_steps or math.ceil(recipe.num_train_epochs * len(self.batches))
        self.warmup = warmup_steps(recipe, self.total)
        self.samples = SampleLoss(model, recipe.consistency, recipe.num_train_samples)
        self.members = Members.plan(recipe, self.total, model, folder)
        self.unwrapped = model
        self.forward = vars(model).get("forward")
        self.model, self.optimizer = accelerator.prepare(model, make_optimizer(model, recipe))
        fixed = {name: value for name, value in recipe.to_dict().items() if name not in FREE}
        about = {**(about or {}), **fixed, "seed": seed, "examples": len(features), "processes": processes}
        about |= {"data": about["data"] if "data" in about else fingerprint(features), "frozen": frozen(model)}
        checkpoints = Checkpoints(folder / "checkpoints", recipe.save_total_limit)
        self.manager = CheckpointManager(checkpoints, accelerator, self.model, self.optimizer, about)

    @property
    def state(self) -> State:
        return self.manager.state

    def run(self, resume: bool = False) -> State:
        """Train to the end, from the last checkpoint if `resume`, and load the best or the averaged weights."""
        self.begin(resume)
        with collected() as stop:
            for batches in self.steps():
                self.advance(batches)
                self.end_if(stop)
        self.logger.close()
        if self.recipe.average_checkpoints:
            self.members.average(self.unwrapped)
        else:
            self.manager.load_best()
        self.unwrapped.eval()
        self.undo_precision()
        return self.state

    def begin(self, resume: bool) -> None:
        """Seed the generators, load or remove the checkpoints, and open the log."""
        randomness.seed_all(self.seed, self.accelerator.process_index)
        if not (resume and self.manager.resume()) and self.accelerator.is_main_process:
            self.manager.checkpoints.clear()
            self.members.clear()
        self.accelerator.wait_for_everyone()
        terms = {"kl": is_patched(self.unwrapped), "consistency": self.recipe.consistency > 0}
        more = [name for name, given in terms.items() if given]
        names, file = ["loss", *(["task_loss", *more] if more else [])], self.folder / "log.jsonl"
        self.logger = RunLogger(file, self.accelerator, self.state.step, self.total, names, self.log)
        self.unwrapped.train()

    def advance(self, batches: list[Batch]) -> None:
        """Make one optimizer step; evaluate, log and save when it is time."""
        factor = learning_rate_factor(self.state.step, self.warmup, self.total, self.members.tail)
        set_learning_rate(self.optimizer, factor)
        terms, norm = self.step(batches)
        self.state.step += 1
        self.logger.update(terms, self.recipe.batch_size)
        self.after_step(norm)

    def end_if(self, stop: Stop) -> None:
        """Save a checkpoint and raise `Interrupted` if a signal was received, by any process."""
        step = self.state.step
        number = stop.agreed(self.accelerator, step)
        if not number or step == self.total:  # after the last step there is a checkpoint
            return
        if self.manager.saved != step:
            if self.logger.steps:
                self.logger.log_averages(step, **self.values(None))
            self.manager.save()
        self.logger.close()
        raise Interrupted(number, f"Interrupted after step {step}, of which there is a checkpoint.")

    def undo_precision(self) -> None:
        """Remove autocast from the model; Accelerate's own function also removes the decorators of transformers."""
        for name, value in {"forward": self.forward, "_original_forward": None}.items():
            vars(self.unwrapped).pop(name, None)
            if value is not None:
                setattr(self.unwrapped, name, value)

    def steps(self) -> Iterator[list[Batch]]:
        """Yield the batches of each remaining step, across epochs."""
        while self.state.step < self.total and not self.state.stopped:
            epoch, start = divmod(self.state.step, len(self.batches))
            loader = DataLoader(
                self.features,
                batch_sampler=self.batches.share(epoch, self.accelerator.process_index, start),
                collate_fn=self.collator,
                num_workers=self.recipe.dataloader_num_workers,
                generator=torch.Generator(),  # otherwise it would draw a seed from the generator of the noise
            )
            iterator = iter(loader)
            while self.state.step < self.total and not self.state.stopped:
                batches = list(islice(iterator, self.recipe.gradient_accumulation_steps))
                if not batches:
                    break
                yield send_to_device(batches, self.accelerator.device, non_blocking=True)

    def step(self, batches: list[Batch]) -> tuple[Tensor, Tensor | None]:
        """Make one optimizer step; return the terms of its loss, (4,), and the norm of a clipped gradient."""
        terms = torch.zeros(len(TERMS), device=self.accelerator.device)
        limit, norm = self.recipe.max_grad_norm, None
        for batch, weight in zip(batches, self.weights(batches), strict=True):
            with self.accelerator.accumulate(self.model):
                output = self.model(**self.samples.expand(batch))
                found = self.samples.terms(output, batch)
                task_loss, consistency = found.task_loss * weight, found.consistency * weight
                loss = task_loss + output.kl_loss if "kl_loss" in output else task_loss
                loss = loss + self.recipe.consistency * consistency if self.recipe.consistency else loss
                self.accelerator.backward(loss)
                if limit is not None and self.accelerator.sync_gradients:
                    norm = self.accelerator.clip_grad_norm_(self.model.parameters(), limit)
                self.optimizer.step()
                self.optimizer.zero_grad()
            kl = output.get("kl", torch.zeros_like(loss))
            terms += torch.stack([loss, task_loss, kl, consistency]).detach().float() / len(batches)
        return terms, norm

    def weights(self, batches: list[Batch]) -> Sequence[Tensor | float]:
        """Return the weight of each batch in the loss of a step, so that the step does not depend on its division.

        A loss over tokens is the mean of its batch, and batches have different numbers of tokens.
        """
        labels = [batch["labels"] for batch in batches if "labels" in batch and batch["labels"].ndim > 1]
        if not labels or len(batches) * self.accelerator.num_processes == 1:
            return [1.0] * len(batches)
        counts = torch.stack([(part != IGNORED).sum() for part in labels]).float()
        mean = self.accelerator.reduce(counts.mean(), "mean")
        return list(counts / mean)

    def after_step(self, norm: Tensor | None) -> None:
        """Evaluate, log and save a checkpoint when it is time."""
        step, last, better = self.state.step, self.state.step == self.total, False
        if self.best_model is not None and (step % (self.recipe.eval_steps or len(self.batches)) == 0 or last):
            better = self.evaluate(self.best_model)
        saves = better or last or self.state.stopped or step % self.recipe.save_steps == 0
        if saves or step % self.recipe.logging_steps == 0:  # a resumed run could not restore unfinished averages
            self.logger.log_averages(step, **self.values(norm))
        if self.accelerator.is_main_process:
            self.members.save(step, self.unwrapped)  # before a checkpoint, from which training might resume
        if saves:
            self.manager.save()
        self.logger.start_timer()

    def values(self, norm: Tensor | None) -> dict[str, float]:
        """Return the values of a step that the log has besides the loss."""
        values = {"epoch": self.state.step / len(self.batches), "learning_rate": self.optimizer.param_groups[0]["lr"]}
        if norm is not None:
            values["grad_norm"] = float(norm)
        if is_patched(self.unwrapped):
            bam = get_config(self.unwrapped)
            done = torch.tensor(self.state.step - 1)
            values["kl_weight"] = float(annealed(bam.kl_weight, bam.annealing, bam.annealing_rate, done))
            values |= latent_values(self.unwrapped)
        return values

    def evaluate(self, best_model: BestModelTracker) -> bool:
        """Return whether the model is better than before; stop training early when it has not been for too long."""
        self.unwrapped.eval()
        with randomness.preserved(), torch.no_grad():
            scores = best_model.scores(self.unwrapped)
        self.unwrapped.train()
        step, state, patience = self.state.step, self.state, self.recipe.early_stopping_patience
        better = best_model.is_better(scores, state.best)
        if better:
            state.best, state.waited = {"step": step, "score": scores[best_model.metric], "scores": scores}, 0
        else:
            state.waited += 1
            state.stopped = patience is not None and state.waited >= patience
        self.logger.log_values(step, scores, "eval")
        text = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.logger.log_text(f"step {step}, epoch {step / len(self.batches):.2f}:  {text}{'  (best)' * better}")
        return better
