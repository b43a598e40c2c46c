"""What a run has to remember to go on as if it had never stopped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from torch.optim import Optimizer

from . import randomness
from .checkpoints import Checkpoint, Checkpoints, Tensors


@dataclass
class State:
    """Where training is. Epoch, place in it and learning rate follow from the step.

    Attributes:
        step: optimizer steps done.
        best: the best evaluation so far: its "step", "score" and "scores".
        waited: evaluations since then.
        stopped: whether training ended early.
    """

    step: int = 0
    best: dict[str, Any] | None = None
    waited: int = 0
    stopped: bool = False


@dataclass
class Memory:
    """Saves and restores a run: weights, optimizer, random states of all processes, and where training is.

    The step of the annealing is a buffer of the model.

    Attributes:
        about: what has to be the same in a run that goes on.
    """

    checkpoints: Checkpoints
    accelerator: Accelerator
    model: nn.Module
    optimizer: Optimizer
    about: dict[str, Any]
    state: State = field(default_factory=State)

    def save(self) -> None:
        """Writes a checkpoint; every process has to call it, the first one writes."""
        randoms = gather_object([randomness.random_state()])
        if self.accelerator.is_main_process:
            scaler = self.accelerator.scaler
            values = {
                **asdict(self.state),
                "about": self.about,
                "random": randoms,
                "scaler": scaler.state_dict() if scaler else None,
            }
            tensors = {"model": model_tensors(self._bare()), "optimizer": optimizer_tensors(self.optimizer)}
            self.checkpoints.save(self.state.step, tensors, values)
        self.accelerator.wait_for_everyone()

    def resume(self) -> bool:
        """Goes back to the newest checkpoint that is whole, if there is one."""
        checkpoint = self.checkpoints.newest()
        if checkpoint is None:
            return False
        values = checkpoint.values()
        self._check(checkpoint, values.pop("about"))
        randoms, scaler = values.pop("random"), values.pop("scaler")
        self.state = State(**values)
        load_model(self._bare(), checkpoint)
        load_optimizer(self.optimizer, checkpoint)
        if scaler is not None:
            self.accelerator.scaler.load_state_dict(scaler)
        randomness.restore(randoms[self.accelerator.process_index])
        return True

    def load_best(self) -> None:
        """Puts the weights of the best evaluation into the model."""
        if self.state.best is None or self.state.best["step"] == self.state.step:
            return
        best = self.checkpoints.at(self.state.best["step"])
        if not best.is_whole():
            raise ValueError(f"{best.folder}, the best checkpoint, is damaged; train again in another folder.")
        load_model(self._bare(), best)

    def _bare(self) -> nn.Module:
        return self.accelerator.unwrap_model(self.model)

    def _check(self, checkpoint: Checkpoint, about: dict[str, Any]) -> None:
        for name in self.about | about:
            before, now = about.get(name), self.about.get(name)
            if before != now:
                raise ValueError(
                    f"{checkpoint.folder} was made with {name}={before!r}, and this run has {now!r}; resume with the "
                    "same settings, or begin anew in another folder."
                )


def model_tensors(model: nn.Module) -> Tensors:
    """What training changes: the parameters that require a gradient, and the buffers."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    state = model.state_dict()
    return {name: state[name].contiguous() for name in state if name in trained or name not in parameters}


def load_model(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Puts the weights of a checkpoint into a model of the same form."""
    tensors, names = checkpoint.tensors("model"), model_tensors(model).keys()
    if tensors.keys() != names:
        some = ", ".join(sorted(tensors.keys() ^ names)[:3])
        raise ValueError(f"{checkpoint.folder} does not fit the model: only one of them has {some}.")
    state = model.state_dict()
    with torch.no_grad():
        for name in names:
            state[name].copy_(tensors[name])


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """The state of every parameter, named `<number of the parameter>.<entry>`."""
    entries = optimizer.state_dict()["state"].items()
    return {f"{number}.{name}": tensor for number, values in entries for name, tensor in values.items()}


def load_optimizer(optimizer: Optimizer, checkpoint: Checkpoint) -> None:
    """The groups are those of the recipe; only what was accumulated is restored."""
    state: dict[int, Tensors] = {}
    for key, tensor in checkpoint.tensors("optimizer").items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
