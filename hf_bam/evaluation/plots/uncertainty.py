"""Risk-coverage curves and histograms of uncertainty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .. import metrics
from ..metrics._arrays import Array, Numbers, flags, vector
from .style import BLUE, GREY, INK, VERMILION, axes_of, figure_of, legible, styled, tidy

OOD = "out-of-distribution"


@styled()
def risk_coverage(
    methods: Mapping[str, tuple[Numbers, Numbers]], *, name: str = "error rate", ax: Axes | None = None
) -> Figure:
    """Plot the error rate among the inputs that remain when the most uncertain ones are rejected.

    Earlier methods have wider lines, so that equal curves are visible below each other. Dotted: the oracles, which
    reject the largest losses first; methods with the same losses share one.

    Args:
        methods: by name, the losses (B,), 0 where the prediction is correct and 1 where it is incorrect, and the
            uncertainties (B,).
        name: name of the mean loss.
        ax: axes to draw into.
    """
    if not methods:
        raise ValueError("methods is empty; it must hold {name: (losses, scores)} for at least one method.")
    ax = axes_of(ax, 6.6, 3.6 + 0.2 * len(methods))
    widths = np.linspace(5.0, 1.4, len(methods)) if len(methods) > 1 else [1.8]
    handles = [_curve(ax, name, *pair, width) for (name, pair), width in zip(methods.items(), widths, strict=True)]
    for losses in {tuple(np.sort(vector(own, "losses"))): own for own, _ in methods.values()}.values():
        ax.plot(*metrics.risk_coverage(losses, losses), color=GREY, linestyle=":", linewidth=1.2)
    oracle = Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="oracle")
    ax.set(xlim=(0, 1), xlabel="coverage: share of inputs kept", ylabel=f"risk: {name} among them")
    ax.set_ylim(0, 1.05 * max(map(_height, handles)) or 1.0)
    ax.legend(handles=[*handles, oracle], loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.3)
    tidy(ax)
    return figure_of(ax)


def _curve(ax: Axes, name: str, losses: Numbers, scores: Numbers, width: float) -> Line2D:
    """Draw the curve of a method."""
    label = f"{legible(name, 36)} (AURC {metrics.aurc(losses, scores):.3f})"
    (line,) = ax.plot(*metrics.risk_coverage(losses, scores), label=label, zorder=3, linewidth=width)
    return line


def _height(line: Line2D) -> float:
    """Return the highest risk from a coverage of 0.1 on: below, a single error is a spike that hides the rest."""
    coverage, risk = line.get_data()
    return float(np.max(np.asarray(risk)[np.asarray(coverage) >= 0.1]))


@styled()
def uncertainty_histograms(
    errors: Numbers,
    scores: Numbers,
    out_scores: Numbers | None = None,
    *,
    bins: int = 20,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot histograms of the uncertainty of correct and incorrect predictions and of out-of-distribution inputs.

    Each histogram sums to one, so that groups of different size can be compared.

    Args:
        errors: (B,) True or 1 where the prediction is incorrect.
        scores: (B,) uncertainties.
        out_scores: (N,) uncertainties of out-of-distribution inputs.
        bins: number of bins.
        limits: range of the uncertainty axis; values beyond it are in the outermost bins. None: that of the data.
        title: title of the figure.
        ax: axes to draw into.
    """
    score = vector(scores, "scores")
    incorrect = flags(errors, "errors", len(score), "scores")
    groups = {"correct": (score[~incorrect], BLUE), "incorrect": (score[incorrect], VERMILION)}
    if out_scores is not None:
        groups[OOD] = (vector(out_scores, "out_scores"), INK)
    everything = np.concatenate([values for values, _ in groups.values()])
    edges = np.histogram_bin_edges(everything, bins, limits)
    ax = axes_of(ax, 4.8, 3.4)
    for name, (values, color) in groups.items():
        _histogram(ax, f"{name} ({len(values)})", values, edges, color, filled=name != OOD)
    ax.set(xlim=(edges[0], edges[-1]), xlabel="uncertainty", ylabel="share of the group")
    ax.set_title(legible(title) if title else "")
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # space for the legend
    ax.legend(loc="upper right")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    tidy(ax)
    return figure_of(ax)


def _histogram(ax: Axes, label: str, values: Array, edges: Array, color: str, *, filled: bool) -> None:
    """Draw one group as shares; only its outline if it is not filled."""
    share = np.histogram(values.clip(edges[0], edges[-1]), edges)[0] / max(len(values), 1)
    if filled:
        ax.stairs(share, edges, fill=True, color=color, alpha=0.35)
    ax.stairs(share, edges, color=color, linewidth=1.6, label=label)
