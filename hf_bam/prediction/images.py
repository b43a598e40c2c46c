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


def opened(item: Any, index: int) -> Any:
    """Return an image of PIL in RGB; raise an error that names the position of anything else."""
    from PIL import Image

    if isinstance(item, (str, os.PathLike)):
        with Image.open(item) as image:
            return image.convert("RGB")
    if isinstance(item, np.ndarray) and item.ndim == 3 and item.shape[-1] == 3 and item.dtype == np.uint8:
        return Image.fromarray(item)
    if isinstance(item, Image.Image):
        return item.convert("RGB")
    raise TypeError(
        f"inputs[{index}] is {item!r:.200}; it must be an image of PIL, the path of one, or an array of bytes, "
        "(height, width, 3)."
    )
