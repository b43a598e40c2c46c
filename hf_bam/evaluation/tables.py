"""Tables as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def as_text(rows: Sequence[Row]) -> str:
    """Aligned columns; the first one holds names."""
    cells = _cells(rows)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Sequence[Row], text_columns: int = 1) -> str:
    """Return a Markdown table; the first `text_columns` columns are aligned left, the others right."""
    header, *body = _cells(rows)
    rule = [":---" if i < text_columns else "---:" for i in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *body)) + "\n"


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]


def _cell(value: Any) -> str:
    """Four digits; a dash for what is not defined."""
    if not isinstance(value, float):
        return "-" if value is None else str(value)
    return "-" if math.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
