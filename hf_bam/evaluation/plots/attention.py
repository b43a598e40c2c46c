"""Plots of attention weights, their standard deviation and their prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ..metrics._arrays import Array, Numbers, numbers
from .style import BLUE, GREY, VERMILION, axes_of, canvas, figure_of, legible, styled, tidy


@styled()
def attention_heatmap(
    mean: Numbers,
    spread: Numbers,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Plot the mean attention weight of every pair of tokens and, beside it, its standard deviation over samples.

    Args:
        mean: (T, S) mean weights over the samples.
        spread: (T, S) standard deviation of the weights.
        rows: T query tokens; in cross-attention those of the target.
        columns: S key tokens; in cross-attention those of the source, which makes this the alignment.
        figure: an empty figure or subfigure to draw into.
    """
    if figure is None:
        cell = _cell(max(len(rows), len(columns)))
        figure = canvas(2 * max(cell * len(columns) + 0.9, 2.6) + 0.8, max(cell * len(rows), 1.2) + 1.6)
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, _matrix(mean, "mean", rows, columns), rows, columns, "Blues", "mean attention")
    _panel(right, _matrix(spread, "spread", rows, columns), rows, columns, "Oranges", "standard deviation")
    right.tick_params(labelleft=False)
    left.set_ylabel("query token")
    return figure_of(figure)


@styled()
def alignment_heatmap(
    weights: Mapping[str, Numbers],
    source: Sequence[str],
    target: Sequence[str],
    *,
    reference: Numbers | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Plot alignments of one sentence pair side by side, on one scale from 0 to 1.

    Args:
        weights: (T, S) weights of the source tokens at each target token, by the title of their panel: soft attention,
            for instance, or prior and posterior of a latent alignment.
        source: S source tokens.
        target: T target tokens.
        reference: (T, S) booleans, the true alignment, which is outlined in every panel.
        figure: an empty figure or subfigure to draw into.
    """
    if not weights:
        raise ValueError("weights is empty; expected at least one panel, {title: (T, S) weights}.")
    if figure is None:
        cell = _cell(max(len(source), len(target)))
        width = len(weights) * max(cell * len(source) + 0.3, 1.8) + 1.8
        figure = canvas(width, max(cell * len(target), 1.2) + 1.6)
    panels = figure.subplots(1, len(weights), sharey=True, squeeze=False)[0]
    for ax, (title, values) in zip(panels, weights.items(), strict=True):
        image = _heatmap(ax, _matrix(values, title, target, source), target, source, "Blues", title, 1.0)
        ax.set_xlabel("source token")
        if reference is not None:
            _outline(ax, _matrix(reference, "reference", target, source))
        if ax is not panels[0]:
            ax.tick_params(labelleft=False)
    panels[0].set_ylabel("target token")
    _colorbar(panels[-1], image)
    return figure_of(figure)


def _outline(ax: Axes, reference: Array) -> None:
    """Draw a frame inside of every cell of the reference."""
    for row, column in zip(*reference.nonzero(), strict=True):
        corner, size = (column - 0.42, row - 0.42), 0.84
        ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor=VERMILION, linewidth=1.3))


def _matrix(values: Numbers, name: str, rows: Sequence[str], columns: Sequence[str]) -> Array:
    """Return weights of shape (T, S)."""
    array = numbers(values, name)
    if array.shape != (len(rows), len(columns)):
        raise ValueError(
            f"{name} has shape {array.shape}; expected {(len(rows), len(columns))}, the numbers of rows and columns. "
            "Take one input, one layer and one head, or the mean over the heads."
        )
    return array


def _cell(tokens: int) -> float:
    """Return the inches for one token: more when there are few."""
    return float(np.clip(4.0 / max(tokens, 1), 0.2, 0.45))


def _panel(ax: Axes, values: Array, rows: Sequence[str], columns: Sequence[str], colors: str, title: str) -> None:
    """Draw one heatmap with its colour bar."""
    image = _heatmap(ax, values, rows, columns, colors, title, float(values.max()) or 1.0)
    ax.set_xlabel("key token")
    _colorbar(ax, image)


def _heatmap(
    ax: Axes, values: Array, rows: Sequence[str], columns: Sequence[str], colors: str, title: str, highest: float
) -> Any:
    image = ax.imshow(values, cmap=colors, vmin=0, vmax=highest, aspect="auto")
    _name_tokens(ax, columns, "x")
    _name_tokens(ax, rows, "y")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return image


def _colorbar(ax: Axes, image: Any) -> None:
    """Draw a slim colour bar, at the top of a tall panel."""
    figure = figure_of(ax)
    height = figure.get_size_inches()[1]
    shrink = min(0.9, 2.4 / height)
    bar = figure.colorbar(image, ax=ax, shrink=shrink, aspect=6 * height * shrink, anchor=(0.0, 1.0), pad=0.02)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(nbins=4)
    tidy(bar.ax, 8)


def _name_tokens(ax: Axes, tokens: Sequence[str], axis: str) -> None:
    """Label the ticks of the x or the y axis with tokens."""
    tidy(ax, 9.0 if len(tokens) <= 25 else 8.0)
    labels = [legible(token, limit=18) for token in tokens]
    if axis == "y":
        ax.set_yticks(range(len(tokens)), labels)
    else:
        fits = max(map(len, labels)) * 0.085 < _cell(len(tokens))  # inches
        ax.set_xticks(range(len(tokens)), labels, rotation=0 if fits else 90)
    ax.tick_params(axis="both", length=0)


@styled()
def prior_over_keys(tokens: Sequence[str], psi: Numbers, *, ax: Axes | None = None) -> Figure:
    """Plot the prior attention to every token of a sentence.

    Args:
        tokens: S key tokens.
        psi: (S,) prior weights, shown as bars with a line at the uniform prior, or (H, S), shown as one coloured strip
            for each head.
        ax: axes to draw into.
    """
    weights = numbers(psi, "psi")
    if weights.ndim not in (1, 2) or weights.shape[-1] != len(tokens):
        wanted = f"({len(tokens)},) or (heads, {len(tokens)})"
        raise ValueError(f"psi has shape {weights.shape}; expected {wanted}, a weight for each token.")
    heads = len(weights) if weights.ndim == 2 else 0
    width = max(_cell(len(tokens)) * len(tokens) + 1.4, 3.6)
    ax = axes_of(ax, width, 0.26 * heads + 1.6 if heads else 2.8)
    if heads:
        _strips(ax, weights)
    else:
        _prior_bars(ax, weights)
    _name_tokens(ax, tokens, "x")
    return figure_of(ax)


def _prior_bars(ax: Axes, weights: Array) -> None:
    ax.bar(range(len(weights)), weights, width=0.8, color=BLUE)
    ax.axhline(weights.mean(), color=GREY, linestyle="--", linewidth=1.2, label="uniform")
    ax.set(xlim=(-0.6, len(weights) - 0.4), ylabel="prior attention")
    ax.grid(False, axis="x")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)


def _strips(ax: Axes, weights: Array) -> None:
    image = ax.imshow(weights, cmap="Blues", vmin=0, vmax=float(weights.max()) or 1.0, aspect="auto")
    ax.set_yticks(range(len(weights)), [str(head) for head in range(len(weights))])
    ax.set(ylabel="head", title="prior attention")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    _colorbar(ax, image)
