"""Where hf_bam joins in with transformers and PEFT, so that code written for plain models serves patched ones.

All of these leave models that are not patched alone:

- `save_pretrained` of models and adapters writes `bam.safetensors` beside the plain weights;
- `from_pretrained` and `from_config` with `attn_implementation="bam"` give a patched model;
- `push_to_hub` writes our model card;
- `Trainer` restores the prior when it resumes or loads the best model, logs the terms of the loss, and keeps the KL
  when it smooths labels.
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
from transformers.trainer_pt_utils import LabelSmoother

from . import hub, serialization
from .attention import NAME
from .patching import get_config, patch
from .patching.state import base_model, find_patches, patch_of

Method = Callable[..., Any]
_MARK = "_hf_bam"
UPLOAD = ("push_to_hub", "repo_id", "commit_message", "create_pr", "private", "revision", "token")
"""Keywords of save_pretrained that are about the Hub."""


def install() -> None:
    _wrap(PreTrainedModel, "save_pretrained", save_pretrained)
    _wrap(PeftModel, "save_pretrained", save_pretrained)
    _wrap(PreTrainedModel, "from_pretrained", from_pretrained)
    _wrap(PreTrainedModel, "_from_config", from_config)
    _wrap(PreTrainedModel, "push_to_hub", push_to_hub)
    _wrap(PeftModel, "push_to_hub", push_to_hub)
    _wrap(Trainer, "_load_from_checkpoint", load_from_checkpoint)
    _wrap(Trainer, "_load_best_model", load_best_model)
    _wrap(Trainer, "log", log)
    _wrap(LabelSmoother, "__call__", smooth_labels)


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
    config: Any = base_model(model).config
    config.bam = get_config(model).to_dict()
    try:
        result = method(model, save_directory, *args, **kwargs)
    finally:
        del config.bam
    if kwargs.get("is_main_process", True):
        serialization.write(model, tensors, Path(save_directory))
        if upload.pop("push_to_hub", False):
            hub.push_to_hub(model, **{"repo_id": Path(save_directory).name, **upload})
    return result


def from_pretrained(method: Method, cls: Any, name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
    loaded = method(cls, name_or_path, *args, **kwargs)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    if asks_for_bam(model):
        path = None if name_or_path is None else serialization.look_for(name_or_path, **hub.location_in(kwargs))
        patch(model) if path is None else serialization.lay_over(model, serialization.read(path))
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
    restore(trainer.model if model is None else model, directory)


def load_best_model(method: Method, trainer: Any) -> None:
    method(trainer)
    restore(trainer.model, trainer.state.best_model_checkpoint)


def restore(model: nn.Module, directory: str) -> None:
    """Loads the prior of a checkpoint; FSDP and DeepSpeed keep it among their own files."""
    path = os.path.join(directory, serialization.FILE)
    if find_patches(model) and os.path.exists(path):
        serialization.copy_tensors(model, serialization.read(path))


def log(method: Method, trainer: Any, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
    """Beside the loss, the terms that it is made of: their means since the last time."""
    # These two together are what Trainer logs itself, on all processes at once.
    if find_patches(trainer.model) and {"loss", "learning_rate"} <= logs.keys():
        means = patch_of(trainer.model).runtime.meter.pop()
        for name, value in means.items():
            logs[name] = trainer.accelerator.gather(value).mean().item()
    method(trainer, logs, *args, **kwargs)


def smooth_labels(method: Method, smoother: LabelSmoother, output: Any, *args: Any, **kwargs: Any) -> Tensor:
    loss = method(smoother, output, *args, **kwargs)
    kl_loss = getattr(output, "kl_loss", None)
    return loss if kl_loss is None else loss + kl_loss.to(loss.device)


install()
