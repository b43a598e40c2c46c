"""Images as inputs of a predictor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .inputs import rows_of


def images_of(inputs: Any, columns: tuple[str, ...]) -> Iterator[Any]:
    """Yield images of PIL, in RGB, from images, paths, arrays, lists of these, or the column of a table.

    Args:
        columns: name of the column of a table or a dictionary, in a tuple.
    """
    single = isinstance(inputs, (str, os.PathLike)) or hasattr(inputs, "convert") or getattr(inputs, "ndim", 0) == 3
    for index, item in enumerate([inputs] if single else rows_of(inputs, columns)):
        yield opened(item[columns[0]] if isinstance(item, dict) else item, index)


def image_texts_of(inputs: Any, columns: tuple[str, ...], allow_empty: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield pairs of an image of PIL, in RGB, and a text, from a pair, pairs, dictionaries or columns of a table.

    Args:
        columns: names of the two columns of a table or a dictionary.
        allow_empty: pass empty texts on, instead of raising `ValueError`.
    """
    if len(columns) != 2:
        raise ValueError(f"columns={columns!r} is not valid; name two, that of the image and that of the question.")
    single = isinstance(inputs, tuple) and len(inputs) == 2 and isinstance(inputs[1], str)
    for index, item in enumerate([inputs] if single else rows_of(inputs, columns)):
        missing = [name for name in columns if name not in item] if isinstance(item, dict) else []
        if missing:
            raise TypeError(
                f"inputs[{index}] has the keys {', '.join(map(str, item))}; expected {' and '.join(columns)}."
            )
        parts = tuple(item[name] for name in columns) if isinstance(item, dict) else item
        if not isinstance(parts, (tuple, list)) or len(parts) != 2 or not isinstance(parts[1], str):
            raise TypeError(f"inputs[{index}] is {item!r:.200}; it must be a pair of an image and a question.")
        if not allow_empty and not parts[1].strip():
            raise ValueError(f"inputs[{index}] has an empty question; there is nothing to predict from.")
        yield opened(parts[0], index), parts[1]


def opened(item: Any, index: int) -> Any:
    """Return an image of PIL in RGB; raise an error that names the position of anything else."""
    from PIL import Image

    if isinstance(item, (str, os.PathLike)):
        try:
            with Image.open(item) as image:
                return image.convert("RGB")
        except OSError as error:
            raise ValueError(f"inputs[{index}]: there is no image in {os.fspath(item)!r}. {error}") from error
    if isinstance(item, np.ndarray) and item.ndim == 3 and item.shape[-1] == 3 and item.dtype == np.uint8:
        return Image.fromarray(item)
    if isinstance(item, Image.Image):
        return item.convert("RGB")
    raise TypeError(
        f"inputs[{index}] is {item!r:.200}; it must be an image of PIL, the path of one, or an array of bytes, "
        "(height, width, 3)."
    )
