"""Whatever the caller has (arrays, tensors, lists) as checked numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Numbers: TypeAlias = npt.ArrayLike | Tensor | Sequence[Tensor]
"""What the metrics accept: numpy arrays, tensors of any device and dtype, nested lists."""
Array: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]

SUM_TOLERANCE = 1e-3
"""How far from one the probabilities of an input may sum."""


def numbers(values: Numbers, name: str) -> Array:
    """Values as a float64 array that is not empty and holds finite numbers only."""
    array = _numeric(values, name).astype(np.float64)
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise ValueError(f"{name} has {count} NaN or infinite values of {array.size}; expected finite numbers.")
    return array


def vector(values: Numbers, name: str, length: int | None = None, other: str = "") -> Array:
    """Numbers of shape (B,), as many as the argument `other` has when a length is given."""
    return _one_dimensional(numbers(values, name), name, length, other)


def flags(values: Numbers, name: str, length: int | None = None, other: str = "") -> npt.NDArray[np.bool_]:
    """Booleans, or the numbers 0 and 1, of shape (B,)."""
    array = vector(values, name, length, other)
    if not np.isin(array, (0, 1)).all():
        strange = array[~np.isin(array, (0, 1))][0]
        raise ValueError(f"{name} has the value {strange:g}; expected booleans, or the numbers 0 and 1.")
    return array.astype(bool)


def normalised(values: Numbers, name: str) -> Array:
    """Numbers of shape (..., C) that are probabilities over the last axis."""
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


def draws(samples: Numbers, name: str = "samples") -> Array:
    """Class probabilities (S, ..., C) of S draws; (B, C) becomes (1, B, C)."""
    array = normalised(samples, name)
    if array.ndim < 2:
        raise ValueError(f"{name} has shape {array.shape}; expected (S, B, C) or (B, C): draws, inputs, classes.")
    return array[None] if array.ndim == 2 else array


def classified(labels: Numbers, samples: Numbers, name: str = "samples") -> tuple[Labels, Array]:
    """Labels (B,) together with the class probabilities (S, B, C) of their inputs."""
    array = draws(samples, name)
    if array.ndim != 3:
        raise ValueError(f"{name} has shape {array.shape}; expected (S, B, C) or (B, C): draws, inputs, classes.")
    truth = _one_dimensional(_indices(labels, "labels"), "labels", array.shape[1], name)
    outside, classes = truth[truth >= array.shape[2]], array.shape[2]
    if outside.size:
        raise ValueError(
            f"labels has the value {outside[0]}; {name} has {classes} classes: expected 0 to {classes - 1}."
        )
    return truth, array


def answered(labels: Numbers, predictions: Numbers) -> tuple[Labels, Labels, int]:
    """Labels (B,), predicted classes (B,) and the number of classes.

    Args:
        predictions: (S, B, C) or (B, C) class probabilities, of which the highest mean decides, or (B,) classes.
    """
    if _numeric(predictions, "predictions").ndim == 1:
        guess = _indices(predictions, "predictions")
        truth = _one_dimensional(_indices(labels, "labels"), "labels", len(guess), "predictions")
        return truth, guess, max(2, 1 + int(max(truth.max(), guess.max())))
    truth, array = classified(labels, predictions, "predictions")
    return truth, predicted(array), array.shape[-1]


def predicted(samples: Array) -> Labels:
    """(B,) the class of highest mean probability of (S, B, C); the first one of a tie."""
    return samples.mean(axis=0).argmax(axis=-1)


def choice(value: str, name: str, choices: Sequence[str]) -> str:
    """The value, when it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, choices))}.")
    return value


def whole(value: int, name: str) -> int:
    """The value, when it is a whole number, 1 or above."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < 1:
        raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, 1 or above.")
    return int(value)


def _indices(values: Numbers, name: str) -> Labels:
    array = _numeric(values, name)
    if array.dtype.kind == "f":
        raise ValueError(f"{name} has the dtype {array.dtype}; expected whole numbers, the indices of the classes.")
    if (array < 0).any():
        raise ValueError(f"{name} has the value {array[array < 0][0]}; expected indices of classes, 0 or above.")
    return array.astype(np.int64)


def _numeric(values: Numbers, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(_plain(values))
    except ValueError as error:
        raise ValueError(f"{name} is ragged: {error} Expected rows of equal length.") from error
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}; expected at least one value.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has the dtype {array.dtype}; expected real numbers.")
    return array


def _plain(values: Any) -> Any:
    """Tensors as numpy arrays, also inside of lists; numpy has no bfloat16."""
    if isinstance(values, Tensor):
        host = values.detach().cpu()
        return host.double().numpy() if host.is_floating_point() else host.numpy()
    return [_plain(value) for value in values] if isinstance(values, (list, tuple)) else values


def _sum_tolerance(values: Any) -> float:
    """Rounding to the 8 bits of bfloat16 alone moves a sum by up to 0.004, so its own precision is granted."""
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
