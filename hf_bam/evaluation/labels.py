"""Conversion of true labels, given as names or indices, to indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def label_indices(labels: Iterable[int | str], names: Sequence[str], expected: int) -> NDArray[Any]:
    """Return the labels of `expected` inputs as indices of `names`; raise `ValueError` for any other label."""
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
