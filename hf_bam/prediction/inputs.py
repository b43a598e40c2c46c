"""What a predictor accepts, and what it says about the rest."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, TypeVar

from datasets import Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase

Text = str | tuple[str, str]
Item = TypeVar("Item")
_tokenizing = threading.Lock()


def texts_of(inputs: Any, columns: tuple[str, ...], optional: str | None = None) -> Iterable[Any]:
    """The texts of a string, a list, pairs, dictionaries, or columns of a table; checked as they are read.

    Args:
        columns: of a table or a dictionary.
        optional: a further column that is read where it is there.
    """
    if isinstance(inputs, (str, dict)):
        return check([inputs], columns, optional)
    if isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(part, str) for part in inputs):
        raise TypeError(
            "A tuple of two strings may be a pair or two texts; give [(first, second)] or [first, second]."
        )
    if isinstance(inputs, (Dataset, IterableDataset)):
        return check(_table_rows(inputs, inputs.column_names, columns), columns, optional)
    if _is_pandas(inputs, "DataFrame"):
        return check(_table_rows(inputs.to_dict("records"), list(inputs.columns), columns), columns, optional)
    if _is_pandas(inputs, "Series"):
        return check(inputs.tolist(), columns, optional)
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__") and not isinstance(inputs, Iterable):
        return check(map(inputs.__getitem__, range(len(inputs))), columns, optional)  # a dataset of torch
    if isinstance(inputs, (Mapping, Set, bytes)) or not isinstance(inputs, Iterable):
        raise TypeError(
            f"inputs is a {type(inputs).__name__}; give a string, a list of strings, pairs or dictionaries, a "
            "datasets.Dataset, or a DataFrame or Series of pandas."
        )
    return check(inputs, columns, optional)


def _is_pandas(inputs: Any, name: str) -> bool:
    """Whether it is an object of this class; pandas is not imported for it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(inputs, getattr(pandas, name))


def _table_rows(
    rows: Iterable[dict[str, Any]], names: list[str] | None, columns: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """The rows of a table that has these columns; a stream may not know its columns before it is read."""
    for row in rows:
        if names is None:
            names = list(row)
        for name in columns:
            if name not in names:
                raise ValueError(f"column {name!r} is not in the table; its columns are {', '.join(map(str, names))}.")
        yield row


def check(items: Iterable[Any], columns: tuple[str, ...], optional: str | None = None) -> Iterator[Text]:
    """Passes texts and pairs through; anything else is an error that says where."""
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            item = _of_columns(item, columns, optional, index)
        parts = item if isinstance(item, (tuple, list)) else (item,)
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"inputs[{index}] is {item!r:.200}; it must be a string or a pair of strings.")
        if not any(part.strip() for part in parts):
            raise ValueError(f"inputs[{index}] is empty; there is nothing to predict from.")
        yield parts[0] if len(parts) == 1 else tuple(parts)


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


def content_seed(seed: int, item: Text) -> int:
    """64 bits that follow from a seed and from a text or pair."""
    content = json.dumps([seed, item]).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def tokenize(tokenizer: PreTrainedTokenizerBase, *texts: Any, **options: Any) -> Any:
    """What a tokenizer makes of texts; one thread at a time, because it keeps how to pad and cut as its own state."""
    with _tokenizing:
        return tokenizer(*texts, **options)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of up to `size` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
