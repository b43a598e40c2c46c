"""Table of the methods of a report: values, confidence intervals, and which of them are the best beyond noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import tables
from .definitions import DEFINITIONS, LOWER_IS_BETTER, NAMES, NOT_RANKED
from .resampling import Draws, interval

DASH = "—"


@dataclass(frozen=True)
class Cell:
    """Value of a measure with its interval, as texts; `number` sorts, and `best` is shown in bold."""

    value: str
    interval: str
    number: float
    best: bool


@dataclass(frozen=True)
class Column:
    """One measure of all methods.

    Attributes:
        arrow: direction of better.
        definition: what the measure is.
    """

    name: str
    arrow: str
    definition: str
    cells: list[Cell]


def make_columns(table: Sequence[Mapping[str, Any]], draws: Draws, loss: str = "loss") -> list[Column]:
    """Return the measures of a table in the order of their first appearance.

    Args:
        draws: values of the resamples, see `resampling.draws`.
        loss: name of the loss, for its definition.
    """
    keys = [key for key in tables.column_names(table) if key != "method"]
    return [_column(key, table, draws, loss) for key in keys]


def _column(key: str, table: Sequence[Mapping[str, Any]], draws: Draws, loss: str) -> Column:
    values = [row.get(key, math.nan) for row in table]
    drawn = [draws.get(str(row["method"]), {}).get(key) for row in table]
    ranked = key not in NOT_RANKED and any(isinstance(value, float) and math.isfinite(value) for value in values)
    best = best_rows(values, drawn, key in LOWER_IS_BETTER) if ranked else [False] * len(values)
    cells = []
    for value, own, good in zip(values, drawn, best, strict=True):
        found = None if own is None or not _is_number(value) else interval(own)
        ends = "" if found is None else "{} to {}".format(*(tables.format_value(end, key) for end in found))
        number = float(value) if _is_number(value) else math.nan
        cells.append(Cell(tables.format_value(value, key, DASH), ends, number, good))
    arrow = ("↓" if key in LOWER_IS_BETTER else "↑") if ranked else ""
    name = loss if key == "loss" else NAMES.get(key, key.replace("_", " "))
    return Column(name, arrow, DEFINITIONS.get(key, ""), cells)


def best_rows(values: Sequence[Any], drawn: Sequence[Any], lower: bool) -> list[bool]:
    """Return which methods are best beyond noise.

    These are the one with the best value and those that cannot be told from it by the interval of the paired
    difference; none if that is all of them, or if there are no resamples.
    """
    known = [i for i, value in enumerate(values) if _is_number(value) and drawn[i] is not None]
    if len(known) < 2:
        return [False] * len(values)
    sign = 1 if lower else -1
    top = min(known, key=lambda i: sign * values[i])
    worse = []
    for index in known:
        found = interval(sign * (drawn[index] - drawn[top]))
        worse.append(found is not None and found[0] > 0)
    if not any(worse):
        return [False] * len(values)
    equal = {index for index, is_worse in zip(known, worse, strict=True) if not is_worse}
    return [index in equal for index in range(len(values))]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def in_markdown(methods: Sequence[str], columns: Sequence[Column]) -> str:
    """Return the table in Markdown; intervals are in brackets."""
    header = ["method", *(f"{tables.escape_markdown(column.name)} {column.arrow}".rstrip() for column in columns)]
    body = [
        [tables.escape_markdown(name), *(_in_markdown(column.cells[i]) for column in columns)]
        for i, name in enumerate(methods)
    ]
    return tables.markdown_table(header, body)


def _in_markdown(cell: Cell) -> str:
    value = f"**{cell.value}**" if cell.best else tables.escape_markdown(cell.value)
    return f"{value} ({cell.interval})" if cell.interval else value
