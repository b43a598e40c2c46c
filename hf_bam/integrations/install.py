"""Every change that hf_bam makes to other libraries, so that code written for plain models serves patched ones.

All of these leave models that are not patched alone:

- transformers knows the attention `"bam"` and the pipelines `bam-...`;
- `save_pretrained` of models and adapters writes `bam.safetensors` beside the plain weights;
- `from_pretrained` of a Bayesian model or adapter that gives the plain one says so in the log;
- `from_pretrained` and `from_config` with `attn_implementation="bam"` give a patched model;
- `push_to_hub` writes our model card;
- `Trainer` restores the prior when it resumes or loads the best model, logs the terms of the loss, and tells how it
  scales the loss;
- `torch.autograd.backward` trains the KL of a forward whose outputs went into a loss without it;
- steps of optimizers are counted for the models that they train.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel, Trainer

from ..attention import forward
from ..attention.forward import NAME
from ..patching import NOT_SAVED, backward, get_config, keep_out_of_plain_weights, patch, steps
from ..patching.state import base_model, find_patches, patch_of
from . import hub, pipelines, serialization

Method = Callable[..., Any]
_MARK = "_hf_bam"
UPLOAD = ("push_to_hub", "repo_id", "commit_message", "create_pr", "private", "revision", "token")
"""Keywords of save_pretrained that are about the Hub."""


def install() -> None:
    """Makes all of them, once; `import hf_bam` calls it."""
    forward.register()
    pipelines.register()
    backward.install()
    steps.install()
    _wrap(PreTrainedModel, "save_pretrained", save_pretrained)
    _wrap(PeftModel, "save_pretrained", save_pretrained)
    _wrap(PreTrainedModel, "from_pretrained", from_pretrained)
    _wrap(PeftModel, "from_pretrained", adapter_from_pretrained)
    _wrap(PreTrainedModel, "_from_config", from_config)
    _wrap(PreTrainedModel, "push_to_hub", push_to_hub)
    _wrap(PeftModel, "push_to_hub", push_to_hub)
    _wrap(Trainer, "_load_from_checkpoint", load_from_checkpoint)
    _wrap(Trainer, "_load_best_model", load_best_model)
    _wrap(Trainer, "log", log)
    _wrap(Trainer, "training_step", training_step)


def _wrap(cls: type, name: str, around: Callable[..., Any]) -> None:
    """Puts `around(method, self, ...)` in the place of a method, once."""
    descriptor = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    is_class_method = isinstance(descriptor, classmethod)
    method: Method = descriptor.__func__ if is_class_method else descriptor
    if hasattr(method, _MARK):
        return

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(method, self, *args, **kwargs)

    setattr(wrapped, _MARK, True)
    setattr(cls, name, classmethod(wrapped) if is_class_method else wrapped)


def save_pretrained(method: Method, model: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
    if not find_patches(model):
        return method(model, save_directory, *args, **kwargs)
    upload = {name: kwargs.pop(name) for name in UPLOAD if name in kwargs}
    given: dict[str, Tensor] = kwargs.get("state_dict") or {}
    tensors = {name: given.get(name, tensor) for name, tensor in serialization.state_tensors(model).items()}
    root: Any = base_model(model)
    root.config.bam = get_config(model).to_dict()
    ignored = vars(root).get(NOT_SAVED)
    keep_out_of_plain_weights(root)  # also of a model around the patched one
    try:
        result = method(model, save_directory, *args, **kwargs)
    finally:
        del root.config.bam
        vars(root).pop(NOT_SAVED)
        if ignored is not None:
            setattr(root, NOT_SAVED, ignored)
    if kwargs.get("is_main_process", True):
        serialization.write(model, tensors, Path(save_directory))
        if upload.pop("push_to_hub", False):
            hub.push_to_hub(model, **{"repo_id": Path(save_directory).name, **upload})
    return result


def from_pretrained(method: Method, cls: Any, name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
    loaded = method(cls, name_or_path, *args, **kwargs)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    was_bayesian = vars(model.config).pop("bam", None) is not None  # a plain model that is saved again is not
    if was_bayesian and not asks_for_bam(model):
        hub.warn_plain(name_or_path)
    if asks_for_bam(model):
        path = None if name_or_path is None else serialization.look_for(name_or_path, **hub.location_in(kwargs))
        patch(model) if path is None else serialization.apply(model, serialization.read(path))
    return loaded


def adapter_from_pretrained(method: Method, cls: Any, model: Any, model_id: Any, *args: Any, **kwargs: Any) -> Any:
    loaded = method(cls, model, model_id, *args, **kwargs)
    if not find_patches(loaded) and os.path.isfile(os.path.join(model_id, serialization.FILE)):
        hub.warn_plain(model_id)
    return loaded


def from_config(method: Method, cls: Any, *args: Any, **kwargs: Any) -> Any:
    model = method(cls, *args, **kwargs)
    return patch(model) if asks_for_bam(model) else model


def asks_for_bam(model: PreTrainedModel) -> bool:
    config: Any = model.config
    return config._attn_implementation == NAME and not find_patches(model)


def push_to_hub(method: Method, model: Any, repo_id: str, **kwargs: Any) -> Any:
    return hub.push_to_hub(model, repo_id, **kwargs) if find_patches(model) else method(model, repo_id, **kwargs)


def load_from_checkpoint(method: Method, trainer: Any, directory: str, model: nn.Module | None = None) -> None:
    method(trainer, directory, model)
    restore(trainer, trainer.model if model is None else model, directory)


def load_best_model(method: Method, trainer: Any) -> None:
    method(trainer)
    restore(trainer, trainer.model, trainer.state.best_model_checkpoint)


def restore(trainer: Any, model: nn.Module, directory: str) -> None:
    """Loads the prior and the step of a checkpoint; FSDP, DeepSpeed and other modules keep them in their own files."""
    path = os.path.join(directory, serialization.FILE)
    if not find_patches(model) or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return
    if os.path.exists(path):
        serialization.copy_tensors(model, serialization.read(path))
    elif isinstance(model, (PreTrainedModel, PeftModel)):
        raise FileNotFoundError(
            f"{path} is missing: the checkpoint has no prior network and no annealing step, and training would go on "
            "with new ones. Was the model patched when it was saved?"
        )


def log(method: Method, trainer: Any, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
    """Beside the loss, the terms that it is made of: their means since the last time."""
    # These two together are what Trainer logs itself, on all processes at once.
    if find_patches(trainer.model) and {"loss", "learning_rate"} <= logs.keys():
        means = patch_of(trainer.model).runtime.meter.pop()
        for name, value in means.items():
            logs[name] = trainer.accelerator.gather(value).mean().item()
    method(trainer, logs, *args, **kwargs)


def training_step(method: Method, trainer: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Tells what the loss of a step is divided by and multiplied with, in case it leaves the KL out."""
    steps = getattr(trainer, "current_gradient_accumulation_steps", trainer.args.gradient_accumulation_steps)
    scaler = trainer.accelerator.scaler
    with backward.scaled((1.0 if scaler is None else scaler.get_scale()) / steps):
        return method(trainer, *args, **kwargs)
