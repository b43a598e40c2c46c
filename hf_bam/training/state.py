"""State of a training run, which its checkpoints save and restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.optim import Optimizer

from ..fields import check_fields, is_number, setting, shown
from . import randomness
from .checkpoints import Checkpoint, Checkpoints, Tensors
from .identity import check_same

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Entries of AdamW's state that have the shape of their parameter; its number of steps is a scalar."""
WAY_OUT = "Resume with the model and the settings of that run, or start again: overwrite_output_dir, another folder."


@dataclass
class State:
    """Progress of training. Epoch, position in the epoch and learning rate follow from the step.

    Attributes:
        step: number of optimizer steps made.
        best: the best evaluation so far: its "step", "score" and "scores".
        waited: number of evaluations since then.
        stopped: whether training stopped early.
    """

    step: int = setting(0, least=0)
    best: dict[str, Any] | None = None
    waited: int = setting(0, least=0)
    stopped: bool = False

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> State:
        """Return the state in a checkpoint, or raise `ValueError`."""
        state = cls(**{item.name: values[item.name] for item in fields(cls)})
        check_fields(state)
        best = state.best
        if best is not None and not (is_number(best.get("score")) and isinstance(best.get("step"), int)):
            raise ValueError(f"State.best={shown(best)} is not valid; it must have a step and a score.")
        return state


@dataclass
class CheckpointManager:
    """Saving and restoring of a run: weights, optimizer, random states of all processes, and progress.

    The step of the annealing is a buffer of the model.

    Attributes:
        about: values that a resumed run must share with the interrupted one.
    """

    checkpoints: Checkpoints
    accelerator: Accelerator
    model: nn.Module
    optimizer: Optimizer
    about: dict[str, Any]
    state: State = field(default_factory=State)
    saved: int | None = None
    """Step of the last checkpoint that was written."""

    def save(self) -> None:
        """Write a checkpoint. Every process has to call this; the main process writes."""
        randoms = gather_object([randomness.random_state()])
        if self.accelerator.is_main_process:
            scaler = self.accelerator.scaler
            values = {
                **asdict(self.state),
                "about": self.about,
                "random": randoms,
                "scaler": scaler.state_dict() if scaler else None,
            }
            tensors = {"model": model_tensors(self._unwrapped()), "optimizer": optimizer_tensors(self.optimizer)}
            values["idle"] = idle_parameters(self.optimizer)
            self.checkpoints.save(self.state.step, tensors, values)
        self.saved = self.state.step
        self.accelerator.wait_for_everyone()

    def resume(self) -> bool:
        """Load the last complete checkpoint and return whether there is one; check all of it before loading."""
        checkpoint = self.checkpoints.last()
        self.checkpoints.warn()
        if checkpoint is None:
            return False
        values = checkpoint.values()
        state = self._check(checkpoint, values)
        self._best_weights(state)
        weights = fitting_weights(self._unwrapped(), checkpoint)
        moments = fitting_moments(self.optimizer, checkpoint, values.get("idle"))
        self.state, scaler, randoms = state, values["scaler"], values["random"]
        load_model(self._unwrapped(), weights)
        load_optimizer(self.optimizer, moments)
        try:
            if scaler is not None:
                self.accelerator.scaler.load_state_dict(scaler)
            randomness.restore(randoms[self.accelerator.process_index])
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{checkpoint.folder}: the random state or the scaler is not one. {WAY_OUT}") from error
        return True

    def load_best(self) -> None:
        """Load the weights of the best evaluation into the model."""
        if self.state.best is None or self.state.best["step"] == self.state.step:
            return
        load_model(self._unwrapped(), self._best_weights(self.state))

    def _unwrapped(self) -> nn.Module:
        return self.accelerator.unwrap_model(self.model)

    def _check(self, checkpoint: Checkpoint, values: dict[str, Any]) -> State:
        """Return the progress in a checkpoint; raise `ValueError` if it is not one of this run."""
        for name in ("about", "random", "scaler", *(item.name for item in fields(State))):
            if name not in values:
                raise ValueError(f"{checkpoint.folder}: state.json has no {name!r}. {WAY_OUT}")
        # Checkpoints of earlier versions do not contain these.
        missing: dict[str, Any] = {name: self.about[name] for name in ("data", "frozen") if name in self.about}
        if not isinstance(values["about"], Mapping):
            raise ValueError(f"{checkpoint.folder}: 'about' in state.json is not a mapping. {WAY_OUT}")
        check_same(checkpoint.folder, {**missing, **values["about"]}, self.about)
        try:
            state = State.read(values)
        except ValueError as error:
            raise ValueError(f"{checkpoint.folder}: {error} {WAY_OUT}") from error
        if state.step != checkpoint.step:
            raise ValueError(f"{checkpoint.folder} holds step {state.step}, not the step in its name. {WAY_OUT}")
        return state

    def _best_weights(self, state: State) -> Tensors:
        """Return the weights of the best evaluation of this run; none if there was no evaluation yet."""
        if state.best is None:
            return {}
        best = self.checkpoints.at(state.best["step"])
        if not best.is_complete():
            raise ValueError(f"{best.folder}, the best checkpoint, is damaged or missing. {WAY_OUT}")
        self._check(best, best.values())
        return fitting_weights(self._unwrapped(), best)


def model_tensors(model: nn.Module) -> Tensors:
    """Return the tensors that training changes: parameters that require a gradient, and buffers."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    state = model.state_dict()
    return {name: state[name].contiguous() for name in state if name in trained or name not in parameters}


def fitting_weights(model: nn.Module, checkpoint: Checkpoint) -> Tensors:
    """Return the weights of a checkpoint; raise `ValueError` if names, shapes or types differ from the model."""
    tensors, own, file = checkpoint.tensors("model"), model_tensors(model), checkpoint.file("model")
    check_names(file, tensors, own)
    for name, tensor in tensors.items():
        check_form(file, name, tensor, own[name].shape, own[name].dtype)
    return tensors


def load_model(model: nn.Module, tensors: Tensors) -> None:
    """Copy weights into the model."""
    state = model.state_dict()
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """Return the state of every parameter, named `<number of the parameter>.<entry>`."""
    entries = optimizer.state_dict()["state"].items()
    return {f"{number}.{name}": tensor for number, values in entries for name, tensor in values.items()}


def idle_parameters(optimizer: Optimizer) -> list[int]:
    """Return the numbers of the parameters without a state, which never had a gradient."""
    known = optimizer.state_dict()["state"].keys()
    return [number for number in range(len(parameters(optimizer))) if number not in known]


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters of all groups, in the order of their numbers."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def fitting_moments(optimizer: Optimizer, checkpoint: Checkpoint, idle: list[int] | None) -> Tensors:
    """Return the optimizer's state of a checkpoint; raise `ValueError` if it does not fit the parameters.

    Args:
        idle: parameters without a state; None: those without one in the checkpoint (earlier versions).
    """
    tensors, own, file = checkpoint.tensors("optimizer"), parameters(optimizer), checkpoint.file("optimizer")
    if idle is None:
        found = {key.partition(".")[0] for key in tensors}
        idle = [number for number in range(len(own)) if str(number) not in found]
    if not isinstance(idle, list):
        raise ValueError(f"{file} does not fit: its idle parameters are {shown(idle)}. {WAY_OUT}")
    numbers = [number for number in range(len(own)) if number not in idle]
    check_names(file, tensors, [f"{number}.{name}" for number in numbers for name in ("step", *MOMENTS)])
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        parameter = own[int(number)]
        if name == "step":
            check_form(file, key, tensor, torch.Size(), torch.float32)
        else:
            check_form(file, key, tensor, parameter.shape, parameter.dtype)
    return tensors


def load_optimizer(optimizer: Optimizer, tensors: Tensors) -> None:
    """Restore the accumulated state; the groups keep the values of the recipe."""
    state: dict[int, Tensors] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def check_names(file: Path, found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise `ValueError` if names differ; the error gives some of the tensors that only one side has."""
    found, expected = set(found), set(expected)
    for names, words in ((expected - found, "has no"), (found - expected, "has more than this run:")):
        if names:
            raise ValueError(f"{file} does not fit: it {words} {', '.join(sorted(names)[:3])}. {WAY_OUT}")


def check_form(file: Path, name: str, tensor: Tensor, shape: torch.Size, dtype: torch.dtype) -> None:
    """Raise `ValueError` if a tensor has another shape or type."""
    if (tensor.shape, tensor.dtype) != (shape, dtype):
        raise ValueError(
            f"{file} does not fit: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}, and this run has {dtype} "
            f"of shape {tuple(shape)}. {WAY_OUT}"
        )
