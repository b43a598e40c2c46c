"""Predictor of a prediction: the trained model with what was saved or is fitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...patching.state import base_model
from ...prediction import Predictor, storage
from ...prediction.defaults import longest
from ...tasks import get_task
from ...tasks.custom import Custom
from ..building import packaged
from ..evaluate.sources import class_names
from ..uncertainty import labelled
from .settings import Prediction

SAMPLERS = {"Bam": "Bayesian attention", "Dropout": "MC dropout", "Plain": "one deterministic pass"}
"""Samplers in words, by their class."""
GIVEN = ("num_samples", "max_length", "head", "seed")
"""Options of the command line that are arguments of a predictor."""


def load(settings: Prediction, run: dict[str, Any], rank: int = 0) -> Predictor[Any]:
    """Return the predictor of a trained model, on the GPU of this rank if there are any.

    Options come from the command line, then from the saved predictor, then from the run that trained the model.
    """
    given = {name: getattr(settings, name) for name in GIVEN if getattr(settings, name) is not None}
    given |= {"hypotheses": settings.hypotheses} if settings.hypotheses else {}
    with storage.named_model(settings.model_name_or_path):
        stored = storage.load(packaged(settings.model_name_or_path), given)
    options = {name: run[name] for name in ("max_length", "num_samples") if run.get(name)}
    if "task_name" in run:
        options |= get_task(run["task_name"], **run.get("options", {})).predictor_options
    options |= stored.options
    if (limit := options.get("max_length")) is not None:
        options["max_length"] = min(limit, longest(stored.model, stored.tokenizer))
    if torch.cuda.is_available():
        stored.model.to(f"cuda:{rank % torch.cuda.device_count()}")
    options |= {"batch_size": settings.batch_size, "progress": False}
    return stored.calibrate(Predictor(stored.sampler(settings.dropout), stored.tokenizer, **options))


def fit(predictor: Predictor[Any], settings: Prediction, columns: list[str]) -> None:
    """Fit novelty and prediction sets to the files of the settings, if there are any."""
    numbers = predictor.head_name == "regression"
    pair = columns[1] if len(columns) > 1 and settings.target_column is None else None
    reader = Custom(columns[0], settings.label_column, pair, regression=numbers)
    names = class_names(base_model(predictor.sampler.model)) if predictor.head_name == "classification" else []
    held_out = None if settings.held_out is None else reader.read(Path(settings.held_out), names)
    if settings.train is not None:
        inputs, labels = labelled(reader, reader.read(Path(settings.train), names, labelled=bool(names)))
        others = None if held_out is None else reader.inputs(held_out)
        predictor.fit(inputs, labels if names else None, held_out=others)
    if held_out is not None:
        predictor.conformal(reader.inputs(held_out), list(held_out["label"]), alpha=settings.alpha)


def describe(predictor: Predictor[Any], settings: Prediction) -> str:
    """Return the model, the method and what was fitted, on one line."""
    sampler = predictor.sampler
    number = min(predictor.settings.num_samples, sampler.limit or predictor.settings.num_samples)
    method = SAMPLERS.get(type(sampler).__name__, type(sampler).__name__)
    processes = f", {settings.num_processes} processes" if settings.num_processes > 1 else ""
    fitted = [f"{name} {value}" for name, value in predictor.describe().items()]
    parts = [
        f"{settings.model_name_or_path}: {predictor.head_name}",
        method if number == 1 else f"{method}, {number} samples",
        f"on {sampler.model.device.type}{processes}",
    ]
    return ", ".join(parts) + (f"; {'; '.join(fitted)}" if fitted else "")
