"""Reliability diagram."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from .. import metrics
from ..metrics._arrays import Array, Numbers
from ..metrics.calibration import Bins, confidence_bins
from .style import BLUE, GREY, INK, canvas, figure_of, legible, styled, tidy


@styled()
def reliability_diagram(
    labels: Numbers,
    samples: Numbers,
    bins: int = 15,
    *,
    title: str | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Plot accuracy against confidence, with the number of inputs underneath.

    Bars on the diagonal mean perfect calibration, bars below it overconfidence. Lines are 95 % confidence intervals of
    the accuracy of a bin (Wilson).

    Args:
        labels: (B,) true classes.
        samples: (S, B, C) class probabilities, averaged over the samples, or (B, C).
        bins: number of equally wide bins between 0 and 1.
        title: first line of the title, above the expected calibration error.
        figure: an empty figure or subfigure to draw into.
    """
    error = f"ECE {metrics.ece(labels, samples, bins):.3f}"
    figure = canvas(4.2, 4.6) if figure is None else figure
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    _bars(upper, lower, confidence_bins(labels, samples, bins))
    upper.set_title(f"{legible(title, 36)}\n{error}" if title else error)
    return figure_of(figure)


def _bars(upper: Axes, lower: Axes, bins: Bins) -> None:
    """Draw the accuracy of each bin above and its number of inputs below."""
    filled, width = bins.count > 0, 1 / len(bins.count)
    left = np.arange(len(bins.count)) * width
    shape: Any = {"width": width, "align": "edge", "color": BLUE, "edgecolor": "white", "linewidth": 0.8}
    upper.bar(left[filled], bins.accuracy[filled], **shape)
    low, high = wilson(bins.accuracy[filled], bins.count[filled])
    upper.vlines(left[filled] + width / 2, low, high, color=INK, linewidth=1.2)
    lower.bar(left, bins.count, **{**shape, "color": GREY})
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2)
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    lower.set(xlabel="confidence", ylabel="inputs")
    lower.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    tidy(upper)
    tidy(lower)
    figure_of(lower).align_ylabels([upper, lower])


def wilson(share: Array, count: npt.NDArray[Any]) -> tuple[Array, Array]:
    """Return the ends of Wilson's 95 % confidence interval of shares among `count` inputs."""
    z = 1.959963984540054
    center = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return center - half, center + half
