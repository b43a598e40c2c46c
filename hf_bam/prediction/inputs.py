"""What a predictor accepts, and what it says about the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from datasets import Dataset, IterableDataset

from .results import Array

Text = str | tuple[str, str]
Item = TypeVar("Item")


def texts_of(inputs: Any, columns: tuple[str, ...]) -> Iterable[Any]:
    """The texts of a string, a list, pairs, or columns of a dataset; checked as they are read."""
    if isinstance(inputs, (str, dict)):
        return check([inputs], columns)
    if isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(part, str) for part in inputs):
        raise TypeError(
            "A tuple of two strings may be a pair or two texts; give [(first, second)] or [first, second]."
        )
    if isinstance(inputs, (Dataset, IterableDataset)):
        return check(_column_values(inputs, columns), columns)
    if isinstance(inputs, Iterable):
        return check(inputs, columns)
    raise TypeError(f"inputs must be a string, a list of strings or pairs, or a Dataset, not {type(inputs).__name__}.")


def _column_values(dataset: Any, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    names = list(dataset.column_names or [])
    for name in columns:
        if name not in names:
            raise ValueError(f"column {name!r} is not in the dataset; its columns are {', '.join(names)}.")
    for row in dataset:
        yield tuple(row[name] for name in columns)


def check(items: Iterable[Any], columns: tuple[str, ...]) -> Iterator[Text]:
    """Passes texts and pairs through; anything else is an error that says where."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and set(columns) <= set(item):
            item = tuple(item[name] for name in columns)
        parts = item if isinstance(item, (tuple, list)) else (item,)
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"inputs[{index}] is {item!r}; it must be a string or a pair of strings.")
        if not any(part.strip() for part in parts):
            raise ValueError(f"inputs[{index}] is empty; there is nothing to predict from.")
        yield parts[0] if len(parts) == 1 else tuple(parts)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of up to `size` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def label_indices(labels: Iterable[int | str], names: Sequence[str], expected: int) -> Array:
    """Labels as indices, checked."""
    indices = []
    for position, label in enumerate(labels):
        if isinstance(label, str) and label in names:
            label = names.index(label)
        if isinstance(label, (bool, str, float)) or not 0 <= int(label) < len(names):
            raise ValueError(f"labels[{position}] is {label!r}; it must be one of {list(names)} or an index of them.")
        indices.append(int(label))
    if len(indices) != expected:
        raise ValueError(f"There are {len(indices)} labels for {expected} inputs.")
    return np.array(indices)
