"""The one training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import send_to_device
from datasets import Dataset
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PreTrainedModel

from .. import get_config, is_patched
from ..objective import annealed
from ..tasks.base import Collator
from . import randomness
from .batching import Batches, feature_lengths
from .checkpoints import Checkpoints
from .evaluation import BestModelTracker
from .identity import fingerprint, frozen
from .logger import RunLogger
from .optimization import make_optimizer, rate, set_rate, warmup_steps
from .recipe import Recipe
from .state import CheckpointManager, State

Batch = dict[str, Tensor]

IGNORED = -100
FREE = frozenset(
    {
        "dataloader_num_workers",
        "logging_steps",
        "num_samples",
        "per_device_eval_batch_size",
        "save_steps",
        "save_total_limit",
        "uncertainty_rows",
    }
)
"""Fields of a recipe that may differ when a run goes on, because the weights do not depend on them."""


def make_accelerator(recipe: Recipe, **options: Any) -> Accelerator:
    """An `Accelerator` with the recipe's accumulation and precision."""
    # Else the precision of the first run would be that of the whole process, and a data loader that somebody left
    # before its end would count as the end of an accumulation.
    AcceleratorState._reset_state()
    GradientState._reset_state()
    precision = "no" if recipe.precision == "fp32" else recipe.precision
    return Accelerator(
        gradient_accumulation_steps=recipe.gradient_accumulation_steps, mixed_precision=precision, **options
    )


def train(
    model: PreTrainedModel, features: Dataset, collator: Collator, recipe: Recipe, folder: Path | str, **options: Any
) -> State:
    """Finetunes a model in place, patched or not, and leaves it with its best weights.

    Args:
        options: `resume=True` goes on from the newest checkpoint in the folder, if there is one; without it the
            checkpoints there are removed. Others as for `Loop`.
    """
    resume = options.pop("resume", False)
    return Loop(model, features, collator, recipe, Path(folder), **options).run(resume)


class Loop:
    """A training run in progress.

    Args:
        model: with a head that computes the loss from the labels.
        features: what the collator takes, among it `input_ids`.
        folder: for the log and the checkpoints.
        best_model: chooses the best weights, by an evaluation every now and then. Without one they are the last ones.
        seed: of the order of the examples, and of the noise.
        about: values that a run that goes on must share with the one that stopped, besides the recipe; "data" is
            a fingerprint of the features where it is not given.
        say: gets a line about every evaluation.
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
        say: Callable[[str], None] = print,
    ) -> None:
        accelerator = accelerator or make_accelerator(recipe)
        self.features, self.collator, self.recipe, self.folder = features, collator, recipe, folder
        self.accelerator, self.best_model, self.seed, self.say = accelerator, best_model, seed, say
        processes, lengths = accelerator.num_processes, feature_lengths(features)
        self.batches = Batches(
            lengths, recipe.batch_size, recipe.gradient_accumulation_steps, processes, seed, recipe.group_by_length
        )
        self.total = recipe.max_steps or math.ceil(recipe.num_train_epochs * len(self.batches))
        self.warmup = warmup_steps(recipe, self.total)
        self.bare = model
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
        """Trains to the end, from the newest checkpoint if it is to resume, and takes the best weights."""
        self.begin(resume)
        for batches in self.steps():
            self.advance(batches)
        self.logger.close()
        self.manager.load_best()
        self.bare.eval()
        self.undo_precision()
        return self.state

    def begin(self, resume: bool) -> None:
        randomness.seed_all(self.seed, self.accelerator.process_index)
        if not (resume and self.manager.resume()) and self.accelerator.is_main_process:
            self.manager.checkpoints.clear()
        self.accelerator.wait_for_everyone()
        log, bayesian = self.folder / "log.jsonl", is_patched(self.bare)
        self.logger = RunLogger(log, self.accelerator, self.state.step, self.total, bayesian)
        self.bare.train()

    def advance(self, batches: list[Batch]) -> None:
        """A step, and what is due after it."""
        set_rate(self.optimizer, rate(self.state.step, self.warmup, self.total))
        terms, norm = self.step(batches)
        self.state.step += 1
        self.logger.add(terms, self.recipe.batch_size)
        self.after_step(norm)

    def undo_precision(self) -> None:
        """Takes autocast off the model; Accelerate's own way to do it takes transformers' decorators off as well."""
        for name, value in {"forward": self.forward, "_original_forward": None}.items():
            vars(self.bare).pop(name, None)
            if value is not None:
                setattr(self.bare, name, value)

    def steps(self) -> Iterator[list[Batch]]:
        """The batches of each step that is left, across the epochs."""
        while self.state.step < self.total and not self.state.stopped:
            epoch, start = divmod(self.state.step, len(self.batches))
            loader = DataLoader(
                self.features,
                batch_sampler=self.batches.share(epoch, self.accelerator.process_index, start),
                collate_fn=self.collator,
                num_workers=self.recipe.dataloader_num_workers,
                generator=torch.Generator(),  # else it would draw a seed from the one that the noise comes from
            )
            iterator = iter(loader)
            while self.state.step < self.total and not self.state.stopped:
                batches = list(islice(iterator, self.recipe.gradient_accumulation_steps))
                if not batches:
                    break
                yield send_to_device(batches, self.accelerator.device, non_blocking=True)

    def step(self, batches: list[Batch]) -> tuple[Tensor, Tensor | None]:
        """One optimizer step: the terms of its loss, (3,), and the norm of its gradient if that is limited."""
        terms = torch.zeros(3, device=self.accelerator.device)
        norm = None
        for batch, weight in zip(batches, self.weights(batches), strict=True):
            with self.accelerator.accumulate(self.model):
                output = self.model(**batch)
                task_loss = output.get("task_loss", output.loss) * weight
                loss = task_loss + output.kl_loss if "kl_loss" in output else task_loss
                self.accelerator.backward(loss)
                if self.recipe.max_grad_norm is not None and self.accelerator.sync_gradients:
                    norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.recipe.max_grad_norm)
                self.optimizer.step()
                self.optimizer.zero_grad()
            kl = output.get("kl", torch.zeros_like(loss))
            terms += torch.stack([loss, task_loss, kl]).detach().float() / len(batches)
        return terms, norm

    def weights(self, batches: list[Batch]) -> list[Tensor] | list[float]:
        """What the loss of each batch counts, so that a step does not depend on how it is divided.

        A loss over tokens is the mean of its batch, and batches have different numbers of them.
        """
        labels = [batch["labels"] for batch in batches if "labels" in batch and batch["labels"].ndim > 1]
        if not labels or len(batches) * self.accelerator.num_processes == 1:
            return [1.0] * len(batches)
        counts = torch.stack([(part != IGNORED).sum() for part in labels]).float()
        mean = self.accelerator.reduce(counts.mean(), "mean")
        return list(counts / mean)

    def after_step(self, norm: Tensor | None) -> None:
        """What is due after a step: an evaluation, a line in the log, a checkpoint."""
        step, last, better = self.state.step, self.state.step == self.total, False
        if self.best_model is not None and (step % (self.recipe.eval_steps or len(self.batches)) == 0 or last):
            better = self.evaluate(self.best_model)
        saves = better or last or self.state.stopped or step % self.recipe.save_steps == 0
        if saves or step % self.recipe.logging_steps == 0:  # a checkpoint leaves no averages unsaid
            self.logger.tell(step, **self.values(norm))
        if saves:
            self.manager.save()
        self.logger.start_clock()

    def values(self, norm: Tensor | None) -> dict[str, float]:
        """What the log says of a step besides the loss."""
        values = {"epoch": self.state.step / len(self.batches), "learning_rate": self.optimizer.param_groups[0]["lr"]}
        if norm is not None:
            values["grad_norm"] = float(norm)
        if is_patched(self.bare):
            bam = get_config(self.bare)
            done = torch.tensor(self.state.step - 1)
            values["kl_weight"] = float(annealed(bam.kl_weight, bam.annealing, bam.annealing_rate, done))
        return values

    def evaluate(self, best_model: BestModelTracker) -> bool:
        """Whether the model is better than before; also ends training when it has not been for too long."""
        self.bare.eval()
        with randomness.undisturbed(), torch.no_grad():
            scores = best_model.scores(self.bare)
        self.bare.train()
        step, state = self.state.step, self.state
        better = best_model.is_better(scores, state.best)
        if better:
            state.best, state.waited = {"step": step, "score": scores[best_model.metric], "scores": scores}, 0
        else:
            state.waited += 1
            state.stopped = (
                self.recipe.early_stopping_patience is not None and state.waited >= self.recipe.early_stopping_patience
            )
        self.logger.write(step, scores)
        told = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.logger.show(
            f"step {step}, epoch {step / len(self.batches):.2f}:  {told}{'  (best)' if better else ''}", self.say
        )
        return better
