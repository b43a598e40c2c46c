"""Ensemble out of one run: models of its last steps, saved as its members."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from peft import PeftModel
from transformers import PreTrainedModel

from .. import from_pretrained, is_patched
from .checkpoints import Tensors
from .recipe import Recipe
from .state import load_model

FOLDER = "ensemble"


@dataclass(frozen=True)
class Members:
    """Models of some of the last steps of a run, each in a folder that `from_pretrained` loads.

    Attributes:
        folder: folder of the members.
        steps: optimizer steps after which a model is a member; none if there is no ensemble.
        tail: number of steps, at the end, with a constant learning rate.
    """

    folder: Path
    steps: tuple[int, ...] = ()
    tail: int = 0

    @classmethod
    def plan(cls, recipe: Recipe, total: int, model: object, folder: Path) -> Members:
        """Return the members of a run of `total` steps, evenly spaced over its tail; the last step is one of them."""
        number = recipe.ensemble_checkpoints
        if not number:
            return cls(folder / FOLDER)
        if isinstance(model, PeftModel):
            raise ValueError(
                f"ensemble_checkpoints={number} and lora=True cannot be combined: a member is a whole model."
            )
        tail = math.ceil(recipe.ensemble_tail * total)
        if tail < number:
            raise ValueError(
                f"ensemble_checkpoints={number} and ensemble_tail={recipe.ensemble_tail} cannot be combined: the tail "
                f"has {tail} of {total} steps. Train longer, or give a longer tail."
            )
        return cls(folder / FOLDER, tuple(total - back * (tail // number) for back in reversed(range(number))), tail)

    @property
    def folders(self) -> list[Path]:
        """Folders of the members, from the earliest step to the last."""
        return [self.at(step) for step in self.steps]

    def at(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(self, step: int, model: PreTrainedModel) -> None:
        """Save the model after a step, if it is a member; a run that resumes from an earlier step saves it again."""
        if step in self.steps:
            shutil.rmtree(self.at(step), ignore_errors=True)  # files of a process that was killed
            model.save_pretrained(self.at(step))

    def load(self, model: PreTrainedModel) -> list[PreTrainedModel]:
        """Return all members, in evaluation mode; `model` has their class and their device."""
        return [read(folder, model) for folder in self.folders]

    def average(self, model: PreTrainedModel) -> None:
        """Give a model the mean of the weights of all members (stochastic weight averaging)."""
        sums: Tensors = {}
        for folder in self.folders:
            for name, tensor in read(folder, model).state_dict().items():
                if tensor.is_floating_point():
                    sums[name] = tensor.double() + sums.get(name, 0.0)
        load_model(model, {name: total / len(self.steps) for name, total in sums.items()})

    def clear(self) -> None:
        """Remove the members of an earlier run."""
        if self.steps:
            shutil.rmtree(self.folder, ignore_errors=True)


def read(folder: Path, model: PreTrainedModel) -> PreTrainedModel:
    """Return a saved model of the class, the attention and the device of another one."""
    cls = type(model)
    loaded = from_pretrained(folder, model_class=cls) if is_patched(model) else cls.from_pretrained(folder)
    return loaded.to(model.device)
