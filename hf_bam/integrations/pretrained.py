"""Wrappers of `save_pretrained`, `from_pretrained`, `from_config` and `push_to_hub` of transformers and PEFT.

Each takes the wrapped method first; see [`install`][hf_bam.integrations.install.install].
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from ..attention.interface import NAME
from ..patching import NOT_SAVED, get_config, keep_out_of_plain_weights, patch
from ..patching.state import base_model, find_patches
from . import code_prior, hub, serialization

Method = Callable[..., Any]
UPLOAD = ("push_to_hub", "repo_id", "commit_message", "create_pr", "private", "revision", "token")
"""Keywords of `save_pretrained` for the upload to the Hub."""


def save_pretrained(method: Method, model: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
    """Save a patched model as a plain one, with its settings in config.json and `bam.safetensors` beside it."""
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
        code_prior.save(model, save_directory)
        if upload.pop("push_to_hub", False):
            hub.push_to_hub(model, **{"repo_id": Path(save_directory).name, **upload})
    return result


def from_pretrained(method: Method, cls: Any, name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a model; patch it, with the saved BAM if there is one, if its attention implementation is "bam"."""
    loaded = method(cls, name_or_path, *args, **kwargs)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    was_bayesian = vars(model.config).pop("bam", None) is not None  # a plain model that is saved again is not
    if was_bayesian and not wants_bam(model):
        hub.warn_plain(name_or_path)
    if wants_bam(model):
        location = hub.location_in(kwargs)
        path = None if name_or_path is None else serialization.look_for(name_or_path, **location)
        if path is None:
            patch(model)
        else:
            code_prior.load(serialization.apply(model, serialization.read(path)), name_or_path, **location)
    return loaded


def adapter_from_pretrained(method: Method, cls: Any, model: Any, model_id: Any, *args: Any, **kwargs: Any) -> Any:
    """Load an adapter; log a warning if it is that of a Bayesian model and the model is not patched."""
    loaded = method(cls, model, model_id, *args, **kwargs)
    if not find_patches(loaded) and os.path.isfile(os.path.join(model_id, serialization.FILE)):
        hub.warn_plain(model_id)
    return loaded


def from_config(method: Method, cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a model from a config; patch it if its attention implementation is "bam"."""
    model = method(cls, *args, **kwargs)
    return patch(model) if wants_bam(model) else model


def wants_bam(model: PreTrainedModel) -> bool:
    """Return whether the attention implementation of a model is "bam" and it is not patched yet."""
    config: Any = model.config
    return config._attn_implementation == NAME and not find_patches(model)


def push_to_hub(method: Method, model: Any, repo_id: str, **kwargs: Any) -> Any:
    """Upload a patched model with [`hf_bam.push_to_hub`][hf_bam.push_to_hub]."""
    return hub.push_to_hub(model, repo_id, **kwargs) if find_patches(model) else method(model, repo_id, **kwargs)
