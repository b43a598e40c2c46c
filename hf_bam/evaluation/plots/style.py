"""Common style of all figures, without changes to matplotlib's global state."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
INK, GREY, FAINT = "#333333", "#767676", "#E3E3E3"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Colours of Okabe and Ito, distinct for colour-blind readers too."""

FALLBACKS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "PingFang SC",
    "Microsoft YaHei",
    "Arial Unicode MS",
)
"""Fonts for characters that DejaVu Sans, which comes with matplotlib, lacks; used where they are installed."""


@cache
def fonts() -> tuple[str, ...]:
    """Return the names of the fonts, in order of preference."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in installed))


def settings() -> Any:
    """Return the rc settings of all figures, by name."""
    return {
        "font.family": list(fonts()),
        "font.size": 10.0,
        "text.color": INK,
        "axes.titlesize": 11.0,
        "axes.titlelocation": "left",
        "axes.titlepad": 8.0,
        "axes.labelsize": 10.0,
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(linestyle=["-", "-."]) * cycler(color=PALETTE),
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 9.0,
        "lines.linewidth": 1.8,
        "figure.facecolor": "white",
        "figure.constrained_layout.w_pad": 0.08,
        "figure.constrained_layout.h_pad": 0.08,
    }


_LOCK = threading.RLock()


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style inside this context and restore the previous settings after it.

    rc settings belong to the process, so one thread at a time is inside.
    """
    with _LOCK, matplotlib.rc_context(settings()):
        yield


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, with a layout that fits its labels."""
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or those of a new figure."""
    return canvas(width, height).add_subplot() if ax is None else ax


def figure_of(part: Axes | Figure | SubFigure) -> Figure:
    """Return the whole figure of axes or of a subfigure."""
    figure = part.get_figure(root=True)
    assert figure is not None
    return figure


def tidy(ax: Axes, size: float = 9.0) -> None:
    """Style the ticks, which matplotlib makes when it draws the figure, after the settings are restored."""
    ax.tick_params(labelsize=size, labelcolor=INK, color=GREY, length=3, width=0.8, labelfontfamily=list(fonts()))


def legible(text: str, limit: int = 40) -> str:
    """Return text that a figure can show: one line of limited length, no mathematics, only characters of the fonts."""
    line = " ".join(text.split()) or text.replace("\n", "↵").replace("\t", "⇥")
    line = line if len(line) <= limit else line[: limit - 1] + "…"
    return "".join(map(_glyph, line)).replace("$", r"\$")


@cache
def _glyph(character: str) -> str:
    """Return the character, or a box if no font has it; nothing for invisible ones such as joiners."""
    for name in fonts():
        path = font_manager.findfont(name)
        if font_manager.get_font(path).get_char_index(ord(character)):
            return character
    return "" if unicodedata.category(character) in ("Cc", "Cf", "Mn") else "□"
