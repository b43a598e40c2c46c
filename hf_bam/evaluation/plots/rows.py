"""Plots of single inputs: parts of their uncertainty, their loss, and predicted numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..metrics._arrays import Array, Numbers, vector
from .style import BLUE, GREY, INK, VERMILION, axes_of, figure_of, legible, styled, tidy

POINT: Any = {"s": 16, "alpha": 0.55, "linewidths": 0}


@styled()
def uncertainty_parts(
    aleatoric: Numbers,
    epistemic: Numbers,
    losses: Numbers,
    ood: tuple[Numbers, Numbers] | None = None,
    *,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot the epistemic against the aleatoric uncertainty of every input.

    Args:
        aleatoric: (B,) aleatoric uncertainties.
        epistemic: (B,) epistemic uncertainties.
        losses: (B,) 0 where the prediction is correct; others count as incorrect.
        ood: aleatoric and epistemic uncertainties of out-of-distribution inputs, (N,) each.
        title: title of the figure.
        ax: axes to draw into.
    """
    x, y = vector(aleatoric, "aleatoric"), vector(epistemic, "epistemic")
    wrong = vector(losses, "losses", len(x), "aleatoric") > 0
    ax = axes_of(ax, 4.8, 3.8)
    if ood is not None:
        u, v = (vector(part, "ood") for part in ood)
        label = f"out-of-distribution ({len(u)})"
        ax.scatter(u, v, s=18, marker="x", color=INK, alpha=0.5, linewidths=1.0, label=label)
    groups = {"correct": (~wrong, BLUE), "incorrect": (wrong, VERMILION)}
    for name, (own, color) in groups.items():
        ax.scatter(x[own], y[own], color=color, label=f"{name} ({own.sum()})", zorder=3, **POINT)
    ax.set(xlabel="aleatoric uncertainty", ylabel="epistemic uncertainty")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_title(legible(title) if title else "")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.08 if title else 1), ncols=2, borderaxespad=0.3)
    tidy(ax)
    return figure_of(ax)


@styled()
def loss_against_uncertainty(
    losses: Numbers, scores: Numbers, *, name: str = "loss", title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the loss of every input against its uncertainty, with the mean loss of ten equal groups.

    Args:
        losses: (B,) losses.
        scores: (B,) uncertainties.
        name: name of the loss.
        title: title of the figure.
        ax: axes to draw into.
    """
    score = vector(scores, "scores")
    loss = vector(losses, "losses", len(score), "scores")
    ax = axes_of(ax, 4.8, 3.4)
    ax.scatter(score, loss, color=BLUE, label="one input", **POINT)
    groups = np.array_split(np.argsort(score, kind="stable"), min(10, len(score)))
    means = np.array([[score[own].mean(), loss[own].mean()] for own in groups])
    ax.plot(*means.T, color=VERMILION, marker="o", markersize=4, label="mean of a tenth")
    ax.set(xlabel="uncertainty", ylabel=name)
    ax.set_ylim(bottom=0)
    ax.set_title(legible(title) if title else "")
    ax.legend(loc="best")
    tidy(ax)
    return figure_of(ax)


@styled()
def predicted_numbers(
    targets: Numbers, values: Numbers, ends: Array, *, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Plot predicted numbers with their intervals against the true ones.

    Args:
        targets: (B,) true numbers.
        values: (B,) predictions.
        ends: (B, 2) lower and upper ends of their intervals.
        title: title of the figure.
        ax: axes to draw into.
    """
    truth = vector(targets, "targets")
    value = vector(values, "values", len(truth), "targets")
    inside = (truth >= ends[:, 0]) & (truth <= ends[:, 1])
    groups = [(inside, BLUE, "target inside"), (~inside, VERMILION, "target outside")]
    if (ends[:, 0] == ends[:, 1]).all():  # single samples have no interval
        groups = [(np.ones(len(truth), dtype=bool), BLUE, "inputs")]
    ax = axes_of(ax, 4.8, 4.2)
    low, high = min(truth.min(), ends.min()), max(truth.max(), ends.max())
    ax.plot([low, high], [low, high], color=GREY, linestyle="--", linewidth=1.2)
    for own, color, label in groups:
        ax.vlines(truth[own], *ends[own].T, color=color, alpha=0.35, linewidth=1.2)
        ax.scatter(truth[own], value[own], color=color, label=f"{label} ({own.sum()})", zorder=3, **POINT)
    ax.set(xlabel="true number", ylabel="prediction")
    ax.set_title(legible(title) if title else "")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.06 if title else 1), ncols=2, borderaxespad=0.3)
    tidy(ax)
    return figure_of(ax)
