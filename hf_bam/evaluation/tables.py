"""Tables of named values as aligned text and as Markdown: one format for numbers everywhere."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

DECIMALS = {"passes": 1, "seconds": 1}
"""Decimals of columns whose values are not rounded to three."""
ALIGNMENT = {"l": ":---", "r": "---:"}
"""Rules under the header of a Markdown table, left and right."""
WIDTH = 120
"""Characters of a line of text."""


class Table(list[dict[str, Any]]):
    """Rows of named values, which `print` shows as aligned columns."""

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def as_text(rows: Sequence[Row], width: int = WIDTH) -> str:
    """Return the rows as aligned columns, the first one to the left.

    Columns that do not fit into the width follow below, each time with the first column.
    """
    cells = _cells(rows)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    blocks: list[list[int]] = [[]]
    for index in range(1, len(widths)):
        if blocks[-1] and widths[0] + sum(2 + widths[i] for i in [*blocks[-1], index]) > width:
            blocks.append([])
        blocks[-1].append(index)
    return "\n\n".join(_block(cells, widths, columns) for columns in blocks)


def _block(cells: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[int]) -> str:
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(row[index].rjust(widths[index]) for index in columns)]) for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Sequence[Row], text_columns: int = 1) -> str:
    """Return a Markdown table; the first `text_columns` columns are aligned left, the others right."""
    header, *body = _cells(rows)
    return markdown_table(header, body, "l" * text_columns + "r")


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]], align: str = "lr") -> str:
    """Return a Markdown table of texts, in which only their pipes and line breaks are escaped.

    Args:
        align: "l" or "r" for each column; the last letter holds for all further ones.
    """
    rule = [ALIGNMENT[align[min(index, len(align) - 1)]] for index in range(len(header))]
    lines = (header, rule, *body)
    return "".join(f"| {' | '.join(map(_markdown_cell, line))} |\n" for line in lines)


def as_html(rows: Sequence[Row], note: str = "") -> str:
    """Return an HTML table, with everything escaped, and a paragraph below it."""
    header, *body = _cells(rows)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in body)
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{x}</tr>' for x in lines)}</tbody></table>{below}"
    )


def escape_markdown(text: str) -> str:
    """Return one line that Markdown shows as it is, without control characters and those that turn the line around."""
    line = re.sub(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", " ".join(text.split()))
    return re.sub(r"([\\`*_\[\]~$])", r"\\\1", html.escape(line, quote=False))


def column_names(rows: Sequence[Row]) -> list[str]:
    """Return the names of all columns, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_value(value: Any, name: str = "", missing: str = "-") -> str:
    """Return a value of the column `name` as text: three decimals below 10, four digits above, `missing` for NaN."""
    if not isinstance(value, float):
        return missing if value is None else str(value)
    if not math.isfinite(value):
        return missing if math.isnan(value) else str(value)
    if name in DECIMALS:
        return f"{value:.{DECIMALS[name]}f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    names = column_names(rows)
    return [names, *([format_value(row.get(name, ""), name) for name in names] for row in rows)]


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
