"""Model cards of patched models for the Hub."""

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

from ..evaluation import tables
from ..patching import get_config
from ..patching.state import base_model as transformers_model
from .eval_results import HubScore, header_results

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
"""Name of a task on the Hub, by the end of the class name. Other classes have no pipeline tag."""
OF_PRIOR = ("beta", "prior_shape", "alpha", "sigma_prior", "prior_location")
"""Settings that have an effect on the KL alone."""


LONGEST = 200
"""Characters of a field that is taken over from another card, at most."""


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
    calibration: Mapping[str, Any] | None = None,
    scores: Sequence[HubScore] = (),
    pairs: bool = False,
) -> ModelCard:
    """Return a model card for the Hub. Sections for which nothing is given are left out.

    Args:
        model: a patched model, or a PEFT model around one.
        repo_id: repository of the model, for the snippets.
        base_model: name on the Hub or folder of the model that was finetuned. None: that of `from_pretrained`.
        metrics: scores by name. The header lists them if the task is known and the data set is one of the Hub.
        dataset: name of the data set of the scores; in the header if it is an id on the Hub, such as "nyu-mll/glue".
        task: name of the task on the Hub, such as "text-classification". None: by the class, if it has one.
        report: further Markdown, such as the `report.md` of [`report`][hf_bam.report].
        figures: image files. The card links to them in `figures/`, where [`push_to_hub`][hf_bam.push_to_hub] uploads
            them.
        license: name of the licence on the Hub. None: that of the base model's card, if it is available.
        language: codes of two or three letters.
        training: training arguments by name.
        calibration: what was fitted for a predictor that is uploaded with the model, by name: `predictor.describe()`.
        scores: scores with their configurations and splits on the Hub, which the header lists instead of `metrics`.
        pairs: the model reads pairs of texts; the example is one.
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
        datasets=_datasets(dataset, scores),
        **_origin(model, base_model or root.name_or_path, repo_id, license),
        **_listed(name, metrics or {}, dataset, task, scores),
    )
    content = {
        "name": name,
        "architecture": architecture,
        "repo_id": repo_id or "path/to/this/model",
        "example": _example(root, pairs),
        "settings": _table("setting", {f"`{key}`": f"`{_text(value)}`" for key, value in used(settings).items()}),
        "metrics": _table(
            "score", {tables.escape_markdown(key): float(value) for key, value in (metrics or {}).items()}, "lr"
        ),
        "dataset": tables.escape_markdown(dataset or ""),
        "licence": tables.escape_markdown(data.license_name or data.license or "See the base model."),
        "report": report,
        "figures": {
            tables.escape_markdown(Path(figure).stem): f"figures/{quote(Path(figure).name)}" for figure in figures
        },
        "training": _table("setting", training or {}),
        "calibration": _table("fit", calibration or {}),
        "has_predictor": calibration is not None,
    }
    return ModelCard(_template().render(content, header=data.to_yaml(), data=data))


def _origin(model: nn.Module, base: str, repo_id: str | None, licence: str | None) -> dict[str, Any]:
    """Return the fields of the header about the base model and its licence."""
    fields = {"license": licence} if licence else _licence(base)
    # A local folder means nothing to others, and the Hub rejects it.
    if base == repo_id or os.path.isdir(base) or not _is_name(base):
        return fields
    relation = "finetune" if isinstance(model, PreTrainedModel) else "adapter"
    return {**fields, "base_model": base, "base_model_relation": relation}


def _licence(base: str) -> dict[str, str]:
    """Return the licence in the base model's card; nothing if it has none or the card is not available."""
    try:
        local = os.path.isdir(base)
        header: Any = metadata_load(Path(base, "README.md")) if local else model_info(base, timeout=10).card_data
    except Exception:  # whatever the reason, the licence is then not known
        return {}
    names = ("license", "license_name", "license_link")
    found = {name: header.get(name) for name in names if header}
    return {name: _text(value) for name, value in found.items() if isinstance(value, str) and len(value) <= LONGEST}


def _is_name(text: str) -> bool:
    """Return whether a text is a valid name of a repository on the Hub."""
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text) is not None


def _is_dataset(text: str | None) -> bool:
    """Return whether a text is a valid id of a data set on the Hub, which has an owner."""
    return text is not None and "/" in text and _is_name(text)


def _datasets(dataset: str | None, scores: Sequence[HubScore]) -> list[str] | None:
    """Return the data sets for the header."""
    named = [dataset] if dataset is not None and _is_dataset(dataset) else []
    return list(dict.fromkeys([*named, *(score.dataset for score in scores)])) or None


def _listed(
    name: str, metrics: Mapping[str, float], dataset: str | None, task: str | None, scores: Sequence[HubScore]
) -> dict[str, Any]:
    """Return the fields of the header about the scores: those that are finite, with their task and data set."""
    if task is None:
        return {}
    results = header_results(scores, task)
    if not scores and dataset is not None and _is_dataset(dataset):
        finite = {metric: float(value) for metric, value in metrics.items() if math.isfinite(value)}
        results = [EvalResult(task, dataset, dataset, metric, value) for metric, value in finite.items()]
    return {"model_name": name, "eval_results": results} if results else {}


def used(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of Bayesian attention that have an effect together with the others."""
    has_kl = bool(settings.get("kl_weight")) and settings.get("prior", "") != "none"
    without = {
        "kl_weight": settings.get("prior") == "none",
        "annealing_rate": not has_kl or settings.get("annealing") == "constant",
        "d_mid": settings.get("prior") != "contextual",
        **dict.fromkeys(("kl_reduction", "annealing", *OF_PRIOR), not has_kl),
    }
    return {name: value for name, value in settings.items() if value is not None and not without.get(name, False)}


def _example(root: PreTrainedModel, pairs: bool) -> str | None:
    """Return inputs of a `BamPredictor` as Python code; None for models that it does not support."""
    from ..prediction.defaults import head_of

    try:
        head = head_of(root)
    except ValueError:
        return None
    if root.main_input_name != "input_ids":
        return None
    if head == "question-answering":
        return '[("Who wrote it?", "It was written by Ada.")]'
    return '[("A man plays a guitar.", "Someone makes music.")]' if pairs else '["Well, it exists."]'


def _template() -> Template:
    environment = Environment(loader=PackageLoader("hf_bam.integrations"), trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("card.md.j2")


def _table(name: str, values: Mapping[str, Any], align: str = "l") -> str:
    """Return a Markdown table of names and values; an empty text without any."""
    body = [
        (key, _text(value) if key.startswith("`") else tables.escape_markdown(_text(value)))
        for key, value in values.items()
    ]
    return tables.markdown_table((name, "value"), body, align) if body else ""


def _text(value: Any) -> str:
    """Return a value as one line; four digits of a float, which settings such as a learning rate need."""
    return f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())
