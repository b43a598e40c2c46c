"""Fits of a trained model to the rows of its run: novelty, temperature, and prediction sets or intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel

from ..evaluation.temperature import SUFFIX, fit_temperature
from ..prediction import Predictions, Predictor
from ..prediction.calibration import NoveltyFit
from ..prediction.fitting import fit_conformal
from ..tasks.base import Task
from .evaluation import Evaluator, subsample
from .logger import Log
from .uncertainty import filled_rows, labelled

ALPHA = 0.1
"""Share of the prediction sets and intervals that may miss the truth."""


def fit_novelty(
    evaluator: Evaluator, model: PreTrainedModel, train: Dataset, held_out: Dataset, log: Log
) -> NoveltyFit | None:
    """Return the fit to the training rows, or None if there are too few rows.

    Held-out rows give the rate of false alarms.
    """
    number = evaluator.recipe.fit_rows
    inputs, labels = labelled(evaluator.task, subsample(train, number))
    others, _ = labelled(evaluator.task, subsample(held_out, number))
    try:
        return evaluator.predictor(model).fit(inputs, labels or None, held_out=others).calibration.novelty
    except ValueError as error:
        log(f"\nNovelty is not fitted: {error}")
        return None


def with_guarantees(
    name: str,
    predictor: Predictor[Any],
    task: Task,
    rows: Dataset,
    results: Sequence[Any],
    table: Iterable[Mapping[str, Any]],
) -> Predictor[Any]:
    """Return a predictor of classes or numbers with fits to labelled rows, as far as there are enough of them.

    A temperature is fitted if it lowers the negative log-likelihood in the table, where no row is one of its own fit.
    Rows without an error would fit one next to 0.

    Args:
        name: method of the predictor in the table.
        results: those of the predictor for the rows, at temperature 1.
        table: measures of the methods on the rows.
    """
    if predictor.head_name not in ("classification", "regression"):
        return predictor
    kept = filled_rows(task, rows)
    rows, results = rows.select(kept), [results[index] for index in kept]
    inputs, labels = task.inputs(rows), list(rows["label"])
    nll = {row["method"]: row["nll"] for row in table if "nll" in row}
    wrong = [result.prediction != label for result, label in zip(results, labels, strict=True)]
    if any(wrong) and nll.get(name + SUFFIX, math.inf) < nll.get(name, -math.inf):
        predictor = predictor.with_settings(
            temperature=fit_temperature(np.array(labels), Predictions(results).samples)
        )
        results = predictor.head().fitted(inputs, results)
    with suppress(ValueError):  # too few rows
        found = fit_conformal(predictor, inputs, labels, ALPHA, results)
        predictor.calibration = replace(predictor.calibration, **found)
    return predictor
