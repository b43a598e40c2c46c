"""Inputs of a predictor: the formats that it reads, and checks of their content."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, TypeVar

from transformers import PreTrainedTokenizerBase

Text = str | tuple[str, str]
Item = TypeVar("Item")
_tokenizing = threading.Lock()


def texts_of(
    inputs: Any, columns: tuple[str, ...], optional: str | None = None, *, allow_empty: bool = False
) -> Iterator[Text]:
    """Return the texts of a string, a list, pairs, dictionaries, or columns of a table; checked as they are read.

    Args:
        columns: names of the texts in a table or a dictionary.
        optional: name of a further text, which may be absent.
        allow_empty: pass empty texts on, instead of raising `ValueError`.
    """
    return _checked(rows_of(inputs, columns), columns, optional, allow_empty)


def rows_of(inputs: Any, columns: tuple[str, ...]) -> Iterable[Any]:
    """Return the inputs one by one, as they come."""
    if isinstance(inputs, (str, dict)):
        return [inputs]
    if isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(part, str) for part in inputs):
        raise TypeError(
            "A tuple of two strings may be a pair or two texts; give [(first, second)] or [first, second]."
        )
    if _is_of("datasets", "Dataset", inputs) or _is_of("datasets", "IterableDataset", inputs):
        return _table_rows(inputs, inputs.column_names, columns)
    if _is_of("pandas", "DataFrame", inputs):
        return _table_rows(inputs.to_dict("records"), list(inputs.columns), columns)
    if _is_of("pandas", "Series", inputs):
        return list(inputs.tolist())
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__") and not isinstance(inputs, Iterable):
        return map(inputs.__getitem__, range(len(inputs)))  # a dataset of torch
    if isinstance(inputs, (Mapping, Set, bytes)) or not isinstance(inputs, Iterable):
        raise TypeError(
            f"inputs is a {type(inputs).__name__}; give a string, a list of strings, pairs or dictionaries, a "
            "datasets.Dataset, or a DataFrame or Series of pandas."
        )
    return inputs


def _is_of(library: str, name: str, inputs: Any) -> bool:
    """Return whether an object has this class of a library, without importing the library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(inputs, getattr(module, name))


def _table_rows(
    rows: Iterable[dict[str, Any]], names: list[str] | None, columns: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table that has these columns; a stream may not know its columns before it is read."""
    for row in rows:
        if names is None:
            names = list(row)
        for name in columns:
            if name not in names:
                raise ValueError(f"column {name!r} is not in the table; its columns are {', '.join(map(str, names))}.")
        yield row


def _checked(
    items: Iterable[Any], columns: tuple[str, ...], optional: str | None, allow_empty: bool
) -> Iterator[Text]:
    """Yield texts and pairs; raise an error that names the position of anything else."""
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            item = _of_columns(item, columns, optional, index)
        parts = item if isinstance(item, (tuple, list)) else (item,)
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"inputs[{index}] is {item!r:.200}; it must be a string or a pair of strings.")
        if not allow_empty and not any(part.strip() for part in parts):
            raise ValueError(f"inputs[{index}] is empty; there is nothing to predict from.")
        try:
            "".join(parts).encode()
        except UnicodeEncodeError as error:  # half of a character, which tokenizers do not take
            raise ValueError(f"inputs[{index}] is not Unicode text: {error}.") from error
        yield parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _of_columns(
    item: Mapping[str, Any], columns: tuple[str, ...], optional: str | None, index: int
) -> tuple[Any, ...]:
    if "input_ids" in item or not set(columns) <= set(item):
        raise TypeError(
            f"inputs[{index}] has the keys {', '.join(map(str, item))}; a dictionary must hold texts under "
            f"{' and '.join(map(repr, columns))}, and the predictor encodes them itself."
        )
    second = None if optional is None else item.get(optional)
    return (*(item[name] for name in columns), *(() if second is None else (second,)))


def image_digest(image: Any) -> str:
    """Return a hash of the pixels of an image of PIL."""
    content = repr((image.mode, image.size)).encode() + image.tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def content_seed(seed: int, item: Any) -> int:
    """Return 64 bits that are a function of a seed and of a text, a pair or an image."""
    content = json.dumps([seed, item], default=image_digest).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def content_uniform(seed: int, item: Any) -> float:
    """Return a number from [0, 1) that is a function of a seed and of an input, apart from `content_seed`."""
    return (content_seed(~seed, item) >> 11) / 2**53 + 0.5


def tokenize(tokenizer: PreTrainedTokenizerBase, *texts: Any, **options: Any) -> Any:
    """Return the encoding of texts, one thread at a time: padding and truncation are state of a fast tokenizer."""
    with _tokenizing:
        return tokenizer(*texts, **options)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of up to `size` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
