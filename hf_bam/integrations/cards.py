"""Model cards: what a patched model is, how to use it and how well it does."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load, model_info
from jinja2 import Environment, PackageLoader, Template
from torch import nn
from transformers import PreTrainedModel

from ..patching import get_config
from ..patching.state import base_model as transformers_model

TAGS = ("hf_bam", "bayesian-attention", "uncertainty", "transformers")
TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "MTModel": "translation",
    "ForImageClassification": "image-classification",
}
"""The Hub's name of a task, by how a class name ends. Other class names do not tell the task."""


def model_card(
    model: nn.Module,
    *,
    repo_id: str | None = None,
    base_model: str | None = None,
    metrics: Mapping[str, float] | None = None,
    dataset: str | None = None,
    task: str | None = None,
    report: str | None = None,
    figures: Sequence[str | os.PathLike[str]] = (),
    license: str | None = None,  # noqa: A002 (the Hub's word)
    language: str | list[str] | None = None,
    training: Mapping[str, Any] | None = None,
) -> ModelCard:
    """A card for the Hub. Sections for which nothing is given are left out.

    Args:
        model: a patched model, or a PEFT model around one.
        repo_id: where the model will be, for the snippets.
        base_model: the Hub's name or the folder of the model that was finetuned. None: what the model was loaded from.
        metrics: scores by name. If dataset and task are known too, the header lists them.
        dataset: what the scores were measured on; the header has it if it can be a name on the Hub.
        task: the Hub's name of the task, such as "text-classification". None: told from the class, where that is
            possible.
        report: further Markdown, such as the `report.md` of [`report`][hf_bam.report].
        figures: picture files. The card looks for them in `figures/`, where [`push_to_hub`][hf_bam.push_to_hub] puts
            them.
        license: the Hub's name of the licence. None: that of the base model's own card, if it can be had.
        language: codes of two or three letters.
        training: settings of the training, by name.
    """
    if base_model is not None and not os.path.isdir(base_model) and not _is_name(base_model):
        raise ValueError(f"base_model={base_model!r} is neither a folder nor a name that a model can have on the Hub.")
    settings, root = get_config(model).to_dict(), transformers_model(model)
    architecture = type(root).__name__.removeprefix("FSDP")
    name = repo_id.rpartition("/")[2] if repo_id else architecture
    task = task or next((task for ending, task in TASKS.items() if architecture.endswith(ending)), None)
    data = ModelCardData(
        language=language,
        library_name="hf_bam",
        tags=[*TAGS],
        pipeline_tag=task,
        datasets=[dataset] if dataset and _is_name(dataset) else None,
        **_origin(model, base_model or root.name_or_path, repo_id, license),
        **_listed(name, metrics or {}, dataset, task),
    )
    content = {
        "name": name,
        "architecture": architecture,
        "place": repo_id or "path/to/this/model",
        "example": _example(root),
        "settings": settings,
        "metrics": metrics,
        "dataset": dataset,
        "report": report,
        "figures": {Path(figure).stem: f"figures/{quote(Path(figure).name)}" for figure in figures},
        "training": training,
    }
    return ModelCard(_template().render(content, header=data.to_yaml(), data=data))


def _origin(model: nn.Module, base: str, repo_id: str | None, licence: str | None) -> dict[str, Any]:
    """The fields of the header about the base model and its licence."""
    fields = {"license": licence} if licence else _licence(base)
    # A folder of this machine means nothing to others, and the Hub refuses it.
    if base == repo_id or os.path.isdir(base) or not _is_name(base):
        return fields
    relation = "finetune" if isinstance(model, PreTrainedModel) else "adapter"
    return {**fields, "base_model": base, "base_model_relation": relation}


def _licence(base: str) -> dict[str, str]:
    """The licence that the base model's own card states; nothing if there is none or the card cannot be had."""
    try:
        local = os.path.isdir(base)
        header: Any = metadata_load(Path(base, "README.md")) if local else model_info(base, timeout=10).card_data
    except Exception:  # whatever it is that keeps the card from us, the licence is then not known
        return {}
    names = ("license", "license_name", "license_link")
    return {name: header.get(name) for name in names if header and isinstance(header.get(name), str)}


def _is_name(text: str) -> bool:
    """Whether it can be the name of a repository on the Hub."""
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text) is not None


def _listed(name: str, metrics: Mapping[str, float], dataset: str | None, task: str | None) -> dict[str, Any]:
    """The fields of the header about the scores; the Hub lists those that are finite, with their task and dataset."""
    finite = {metric: float(value) for metric, value in metrics.items() if math.isfinite(value)}
    if not finite or dataset is None or task is None:
        return {}
    results = [EvalResult(task, dataset, dataset, metric, value) for metric, value in finite.items()]
    return {"model_name": name, "eval_results": results}


def _example(root: PreTrainedModel) -> str | None:
    """Inputs for a `BamPredictor`, as Python; None for models that it does not serve."""
    from ..prediction.predictor import head_of

    try:
        head = head_of(root)
    except ValueError:
        return None
    if root.main_input_name != "input_ids":
        return None
    return '[("Who wrote it?", "It was written by Ada.")]' if head == "question-answering" else '["Well, it exists."]'


def _template() -> Template:
    environment = Environment(loader=PackageLoader("hf_bam"), trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = _cell
    return environment.get_template("card.md.j2")


def _cell(value: Any) -> str:
    """A value as it stands in a Markdown table."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
