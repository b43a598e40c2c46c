"""Folder `code_prior` of a saved model: the autoregressive prior of its codes, a transformers model of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from torch import nn
from transformers import AutoModelForCausalLM
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file

from ..patching.state import base_model, patch_of

FOLDER = "code_prior"
FILES = (CONFIG_NAME, GENERATION_CONFIG_NAME, SAFE_WEIGHTS_NAME)


def save(model: nn.Module, directory: str | os.PathLike[str]) -> None:
    """Write the prior of the codes of a patched model, if it has one, in the place of an earlier one."""
    prior, folder = patch_of(model).code_prior, Path(directory, FOLDER)
    if folder.is_dir():
        shutil.rmtree(folder)
    if prior is not None:
        prior.save_pretrained(folder)


def load(model: nn.Module, name_or_path: str | os.PathLike[str], **hub: Any) -> None:
    """Give a patched model the prior in a folder or a repository of the Hub, if there is one."""
    patch = patch_of(model)
    if patch.config.family != "quantized":
        return
    options: dict[str, Any] = {"_raise_exceptions_for_missing_entries": False, **hub}
    paths = [cached_file(name_or_path, f"{FOLDER}/{file}", **options) for file in FILES]
    if paths[0] is not None:
        prior = AutoModelForCausalLM.from_pretrained(Path(paths[0]).parent)
        patch.code_prior = prior.eval().to(base_model(model).device)
