"""Fits of a predictor to data of the user: novelty, prediction sets, intervals and abstention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ..attention.noise import new_seed
from ..evaluation.conformal import IntervalFit, abstention_threshold, fit_sets, quantile
from ..evaluation.labels import label_indices
from .calibration import Abstention, Calibration, Intervals, NoveltyFit, Sets
from .features import NAME
from .inputs import Text, content_uniform
from .results import Array
from .running import run_everywhere
from .samplers import Plain
from .student import StudentFit

if TYPE_CHECKING:
    from .predictor import Predictor

ONE_VECTOR = ("classification", "multi-label", "regression")
"""Heads with one vector of logits for an input."""
LEAST_INPUTS = 20
HELD_OUT = 10
"""One of this many inputs is held out of a fit that gets no held-out inputs."""


def fit_novelty(
    predictor: Predictor[Any],
    texts: list[Text],
    labels: Iterable[int | str] | None,
    held_out: list[Text] | None,
    false_alarms: float,
) -> NoveltyFit:
    """Return the fit to a training set; see `Predictor.fit`."""
    check_rate("false_alarms", false_alarms, len(texts) // HELD_OUT if held_out is None else len(held_out))
    classes = classes_of(predictor, texts, labels)
    if held_out is None:
        # Chosen by content, so that equal texts stay together and the order does not matter.
        order = np.argsort([content_uniform(0, text) for text in texts], kind="stable")
        others, own = order[: len(order) // HELD_OUT], order[len(order) // HELD_OUT :]
    else:
        others, own = np.arange(len(texts), len(texts) + len(held_out)), np.arange(len(texts))
    features = predictor.features([*texts, *(held_out or [])])
    parts = ({name: x[rows] for name, x in features.items()} for rows in (own, others))
    return NoveltyFit.fit(next(parts), classes[own], next(parts), false_alarms)


def classes_of(predictor: Predictor[Any], texts: list[Text], labels: Iterable[int | str] | None) -> Array:
    """Return the class of each input, (B,): its label, or else the prediction of the deterministic model.

    Models without classes have one class for all inputs.
    """
    if predictor.head_name == "classification":
        if labels is not None:
            return label_indices(labels, predictor.label_names, len(texts))
        return np.array([result.prediction for result in deterministic(predictor)(texts)])
    if labels is not None:
        raise ValueError(
            f"labels are for classification; with head={predictor.head_name!r} one Gaussian describes all inputs. "
            "Leave them out: predictor.fit(inputs)."
        )
    return np.zeros(len(texts), dtype=int)


def deterministic(predictor: Predictor[Any]) -> Predictor[Any]:
    """Return a predictor of one deterministic pass, without fits."""
    plain = copy(predictor)
    plain.sampler, plain.calibration = Plain(predictor.sampler.model), Calibration()
    return plain


def fit_student(predictor: Predictor[Any], texts: list[Text]) -> StudentFit:
    """Return the fit of a student; see `Predictor.distill`."""
    name, number = predictor.head_name, predictor.head().num_samples
    if name not in ONE_VECTOR:
        raise ValueError(f"distill() needs one vector of logits for an input; with head={name!r} there are others.")
    if number < 2 or len(texts) < LEAST_INPUTS:
        raise ValueError(
            f"distill() needs at least 2 samples of at least {LEAST_INPUTS} inputs; this predictor draws {number}, "
            f"and there are {len(texts)} inputs."
        )
    samples, plain = (
        np.stack(run_everywhere(own, texts, "logits"), axis=1) for own in (predictor, deterministic(predictor))
    )
    if name == "classification":  # classes have the same probabilities whatever their logits share
        samples, plain = (x - x.mean(axis=-1, keepdims=True) for x in (samples, plain))
    return StudentFit.fit(plain[0], predictor.features(texts)[NAME], samples)


def fit_conformal(
    predictor: Predictor[Any],
    texts: list[Text],
    labels: Iterable[Any],
    alpha: float,
    results: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return the fitted part of a calibration by its name; see `Predictor.conformal`.

    Args:
        results: those of the predictor for the texts, if they are known.
    """
    check_rate("alpha", alpha, len(texts))
    if predictor.head_name == "regression":
        targets = numbers(labels, len(texts))
        results = predictor(texts) if results is None else results
        mean, std = (np.array([getattr(result, name) for result in results]) for name in ("value", "std"))
        fit = IntervalFit.fit(targets, mean, std, alpha)
        return {"intervals": Intervals(fit.threshold, fit.offset, alpha)}
    check_classification(predictor, "conformal", " or 'regression'")
    truth = label_indices(labels, predictor.label_names, len(texts))
    results = predictor(texts) if results is None else results
    probabilities = np.array([result.samples.mean(axis=0) for result in results])
    seed = new_seed() if predictor.settings.seed is None else predictor.settings.seed
    uniform = np.array([content_uniform(seed, text) for text in texts])
    return {"sets": Sets(fit_sets(truth, probabilities, uniform, alpha), alpha)}


def fit_abstention(
    predictor: Predictor[Any], texts: list[Text], labels: Iterable[int | str], risk: float, confidence: float
) -> Abstention:
    """Return the fitted threshold; see `Predictor.abstain`."""
    check_rate("risk", risk)
    check_rate("confidence", confidence)
    check_classification(predictor, "abstain")
    truth, results = label_indices(labels, predictor.label_names, len(texts)), predictor(texts)
    wrong = np.array([result.prediction for result in results]) != truth
    entropy = np.array([result.entropy for result in results])
    threshold = abstention_threshold(wrong, entropy, risk, confidence) if texts else -math.inf
    if math.isinf(threshold):
        raise ValueError(
            f"No entropy keeps the error of answered inputs at risk={risk} with confidence={confidence}, on "
            f"{len(texts)} inputs with {wrong.sum()} errors. Give more inputs, or a larger risk."
        )
    return Abstention(threshold, risk, confidence)


def check_classification(predictor: Predictor[Any], name: str, others: str = "") -> None:
    if predictor.head_name != "classification":
        raise ValueError(
            f"{name}() needs head='classification'{others}; this predictor has head={predictor.head_name!r}."
        )


def check_rate(name: str, value: float, number: int | None = None) -> None:
    """Raise `ValueError` for a rate outside of (0, 1), and for one that `number` inputs are too few for."""
    if not 0 < value < 1:
        raise ValueError(f"{name}={value!r} is not valid; it must be a number between 0 and 1.")
    if number is not None and math.isinf(quantile(np.zeros(number), value)):
        least = math.ceil(1 / value - 1e-9) - 1
        raise ValueError(f"{number} held-out inputs are too few for {name}={value}; it needs at least {least}.")


def numbers(labels: Iterable[Any], expected: int) -> Array:
    """Return the targets of a regression, (B,)."""
    targets = np.array([float(label) for label in labels])
    if len(targets) != expected:
        raise ValueError(f"There are {len(targets)} labels for {expected} inputs.")
    if not np.isfinite(targets).all():
        raise ValueError(f"labels[{int(np.flatnonzero(~np.isfinite(targets))[0])}] is not finite.")
    return targets
