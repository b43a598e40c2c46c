"""One calm look for all figures, without touching matplotlib's global state."""

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
"""Okabe and Ito's colours: distinct for colour-blind readers too."""

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
"""Fonts for what DejaVu Sans, which comes with matplotlib, cannot write; used where they are installed."""


@cache
def fonts() -> tuple[str, ...]:
    """The names of the fonts to write with, in order of preference."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in installed))


def settings() -> Any:
    """The rc settings of all figures, by name."""
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
    """The style inside, whatever was set outside before and after.

    rc settings belong to the process, so one thread at a time.
    """
    with _LOCK, matplotlib.rc_context(settings()):
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches, that makes room for its labels by itself."""
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure."""
    return canvas(width, height).add_subplot() if ax is None else ax


def figure_of(part: Axes | Figure | SubFigure) -> Figure:
    """The whole figure that something was drawn into."""
    figure = part.get_figure(root=True)
    assert figure is not None
    return figure


def tidy(ax: Axes, size: float = 9.0) -> None:
    """Ticks in the style: matplotlib makes them when the figure is drawn, after the settings are gone."""
    ax.tick_params(labelsize=size, labelcolor=INK, color=GREY, length=3, width=0.8, labelfontfamily=list(fonts()))


def legible(text: str, limit: int = 40) -> str:
    """Text that a figure can show: one line, no mathematics, no character that the fonts lack, not too long."""
    line = " ".join(text.split()) or text.replace("\n", "↵").replace("\t", "⇥")
    line = line if len(line) <= limit else line[: limit - 1] + "…"
    return "".join(map(_glyph, line)).replace("$", r"\$")


@cache
def _glyph(character: str) -> str:
    """The character, or a box if no font has it; nothing for invisible ones such as joiners."""
    for name in fonts():
        path = font_manager.findfont(name)
        if font_manager.get_font(path).get_char_index(ord(character)):
            return character
    return "" if unicodedata.category(character) in ("Cc", "Cf", "Mn") else "□"
