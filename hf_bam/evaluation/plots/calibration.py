"""Is a model right as often as it says?"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .. import metrics
from ..metrics._arrays import Array, Numbers, classified
from .style import BLUE, GREY, canvas, figure_of, legible, styled, tidy


@styled()
def reliability_diagram(
    labels: Numbers,
    samples: Numbers,
    bins: int = 15,
    *,
    title: str | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """How often answers are right (bars) against how sure they are, with the number of answers underneath.

    Bars on the diagonal mean perfect calibration; below it the model is too sure of itself.

    Args:
        labels: (B,) true classes.
        samples: (S, B, C) class probabilities, averaged over the draws, or (B, C).
        bins: number of equally wide bins between 0 and 1.
        title: what stands before the expected calibration error.
        figure: an empty figure or subfigure to draw into.
    """
    error = f"ECE {metrics.ece(labels, samples, bins):.3f}"
    truth, draws = classified(labels, samples)
    figure = canvas(4.2, 4.6) if figure is None else figure
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    mean = draws.mean(axis=0)  # (B, C)
    _bars(upper, lower, mean.max(axis=1), mean.argmax(axis=1) == truth, bins)
    upper.set_title(f"{legible(title, 28)}: {error}" if title else error)
    return figure_of(figure)


def _bars(upper: Axes, lower: Axes, confidence: Array, right: NDArray[np.bool_], bins: int) -> None:
    """Accuracy by bin above, number of answers by bin below."""
    edges = np.linspace(0, 1, bins + 1)
    index = np.searchsorted(edges[1:-1], confidence, side="left")  # a bin holds its upper end, as in `metrics.ece`
    count = np.bincount(index, minlength=bins)
    filled = count > 0
    accuracy = np.bincount(index, weights=right, minlength=bins)[filled] / count[filled]
    shape: Any = {"width": 1 / bins, "align": "edge", "color": BLUE, "edgecolor": "white", "linewidth": 0.8}
    upper.bar(edges[:-1][filled], accuracy, **shape)
    lower.bar(edges[:-1], count, **{**shape, "color": GREY})
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2)
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="share of right answers")
    lower.set(xlabel="confidence: probability of the answer", ylabel="answers")
    lower.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    tidy(upper)
    tidy(lower)
    figure_of(lower).align_ylabels([upper, lower])
