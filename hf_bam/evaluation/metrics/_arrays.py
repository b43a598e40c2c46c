"""Conversion of arrays, tensors and lists to checked numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Numbers: TypeAlias = npt.ArrayLike | Tensor | Sequence[Tensor]
"""Arguments of the metrics: numpy arrays, tensors of any device and dtype, nested lists."""
Array: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]

SUM_TOLERANCE = 1e-3
"""Largest accepted distance from 1 of the sum of an input's probabilities."""


def numbers(values: Numbers, name: str) -> Array:
    """Return the values as a float64 array; raise `ValueError` if it is empty or not finite."""
    array = _numeric(values, name).astype(np.float64)
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise ValueError(f"{name} has {count} NaN or infinite values of {array.size}; expected finite numbers.")
    return array


def vector(values: Numbers, name: str, length: int | None = None, other: str = "") -> Array:
    """Return numbers of shape (B,), where B is `length`, that of the argument `other`, if it is given."""
    return _one_dimensional(numbers(values, name), name, length, other)


def flags(values: Numbers, name: str, length: int | None = None, other: str = "") -> npt.NDArray[np.bool_]:
    """Return booleans of shape (B,), given as booleans or as the numbers 0 and 1."""
    array = vector(values, name, length, other)
    invalid = array[~np.isin(array, (0, 1))]
    if invalid.size:
        raise ValueError(f"{name} has the value {invalid[0]:g}; expected booleans, or the numbers 0 and 1.")
    return array.astype(bool)


def probabilities(values: Numbers, name: str) -> Array:
    """Return numbers of shape (..., C) that are probabilities over the last axis."""
    array = numbers(values, name)
    if array.ndim == 0:
        raise ValueError(f"{name} is the single number {array:g}; expected probabilities of shape (..., classes).")
    if (array < 0).any():
        raise ValueError(f"{name} has the negative value {array.min():g}; expected probabilities, not logits.")
    sums = array.sum(axis=-1)
    if (abs(sums - 1) > _sum_tolerance(values)).any():
        worst = sums.flat[abs(sums - 1).argmax()]
        raise ValueError(f"{name} sums to {worst:g} over its last axis; expected probabilities that sum to 1.")
    return array


def class_samples(samples: Numbers, name: str = "samples") -> Array:
    """Return S samples of class probabilities, (S, ..., C); (B, C) becomes (1, B, C)."""
    array = probabilities(samples, name)
    if array.ndim < 2:
        raise ValueError(f"{name} has shape {array.shape}; expected (S, B, C) or (B, C): samples, inputs, classes.")
    return array[None] if array.ndim == 2 else array


def labelled_samples(labels: Numbers, samples: Numbers, name: str = "samples") -> tuple[Labels, Array]:
    """Return labels (B,) and the class probabilities (S, B, C) of their inputs."""
    array = class_samples(samples, name)
    if array.ndim != 3:
        raise ValueError(f"{name} has shape {array.shape}; expected (S, B, C) or (B, C): samples, inputs, classes.")
    truth = _one_dimensional(_indices(labels, "labels"), "labels", array.shape[1], name)
    outside, classes = truth[truth >= array.shape[2]], array.shape[2]
    if outside.size:
        raise ValueError(
            f"labels has the value {outside[0]}; {name} has {classes} classes: expected 0 to {classes - 1}."
        )
    return truth, array


def labels_and_classes(labels: Numbers, predictions: Numbers) -> tuple[Labels, Labels, int]:
    """Return labels (B,), predicted classes (B,) and the number of classes.

    Args:
        predictions: (S, B, C) or (B, C) class probabilities, of which the highest mean is chosen, or (B,) classes.
    """
    if _numeric(predictions, "predictions").ndim == 1:
        classes = _indices(predictions, "predictions")
        truth = _one_dimensional(_indices(labels, "labels"), "labels", len(classes), "predictions")
        return truth, classes, max(2, 1 + int(max(truth.max(), classes.max())))
    truth, array = labelled_samples(labels, predictions, "predictions")
    return truth, predicted_classes(array), array.shape[-1]


def predicted_classes(samples: Array) -> Labels:
    """Return the classes (B,) of highest mean probability of samples (S, B, C); of a tie, the first."""
    return samples.mean(axis=0).argmax(axis=-1)


def check_choice(value: str, name: str, choices: Sequence[str]) -> None:
    """Raise `ValueError` if the value is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, choices))}.")


def check_positive_integer(value: int, name: str) -> None:
    """Raise `ValueError` if the value is not a whole number, 1 or above."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < 1:
        raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, 1 or above.")


def _indices(values: Numbers, name: str) -> Labels:
    array = _numeric(values, name)
    if array.dtype.kind == "f":
        raise ValueError(f"{name} has the dtype {array.dtype}; expected whole numbers, the indices of the classes.")
    if (array < 0).any():
        raise ValueError(f"{name} has the value {array[array < 0][0]}; expected indices of classes, 0 or above.")
    return array.astype(np.int64)


def _numeric(values: Numbers, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(_to_numpy(values))
    except ValueError as error:
        raise ValueError(f"{name} is ragged: {error} Expected rows of equal length.") from error
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}; expected at least one value.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has the dtype {array.dtype}; expected real numbers.")
    return array


def _to_numpy(values: Any) -> Any:
    """Return tensors as numpy arrays, inside of lists too. Floats become float64, as numpy has no bfloat16."""
    if isinstance(values, Tensor):
        host = values.detach().cpu()
        return host.double().numpy() if host.is_floating_point() else host.numpy()
    return [_to_numpy(value) for value in values] if isinstance(values, (list, tuple)) else values


def _sum_tolerance(values: Any) -> float:
    """Return `SUM_TOLERANCE`, or the precision of the dtype if that is coarser, as it is for bfloat16."""
    while isinstance(values, (list, tuple)):
        values = values[0]
    if isinstance(values, Tensor) and values.is_floating_point():
        return max(SUM_TOLERANCE, torch.finfo(values.dtype).eps)
    return SUM_TOLERANCE


def _one_dimensional(array: npt.NDArray[Any], name: str, length: int | None, other: str) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected one dimension, a value for each input.")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} values and {other} has {length} inputs; expected one for each.")
    return array
