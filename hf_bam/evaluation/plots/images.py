"""Plots of attention over an image, and of answers about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from ..metrics import top_two_p_values
from ..metrics._arrays import Array, Numbers, numbers
from .style import BLUE, GREY, canvas, figure_of, legible, styled, tidy

PANEL = 2.1
"""Inches of a square panel."""
SHOWN_ANSWERS = 3


@styled()
def image_attention(
    image: Numbers, mean: Numbers, spread: Numbers, *, title: str = "", figure: Figure | SubFigure | None = None
) -> Figure:
    """Plot an image, the mean attention to its patches and the standard deviation over samples, as overlays.

    Args:
        image: (height, width, 3) colours or (height, width) greys, from 0 to 1 or from 0 to 255.
        mean: (P,) or (rows, columns) mean weights of the patches, row by row, without that of a class token.
        spread: standard deviations of the weights, in the same shape.
        title: title of the figure: the question, or the predicted class.
        figure: an empty figure or subfigure to draw into.
    """
    picture = pixels(image)
    figure = canvas(3 * PANEL + 1.2, PANEL + (1.0 if title else 0.7)) if figure is None else figure
    first, second, third = figure.subplots(1, 3)
    _picture(first, picture, "image")
    _overlay(second, picture, grid(mean, "mean"), "Blues", "mean attention")
    _overlay(third, picture, grid(spread, "spread"), "Oranges", "standard deviation")
    if title:
        figure.suptitle(legible(title, 60), x=0.02, ha="left")
    return figure_of(figure)


@styled()
def image_words(
    image: Numbers,
    words: Sequence[str],
    weights: Mapping[str, Numbers],
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Plot the attention over an image at every word of a caption: a row of pictures for each kind of weights.

    Args:
        image: (height, width, 3) colours or (height, width) greys.
        words: T words.
        weights: (T, P) or (1, P) weights of the patches by the name of their row: prior and posterior, for instance.
            All pictures of a row have one scale.
    """
    if not weights or not words:
        raise ValueError("words and weights must not be empty; expected words and {name: (T, P) weights}.")
    picture, number = pixels(image), len(words)
    figure = canvas(0.62 * PANEL * number + 0.6, 0.7 * PANEL * len(weights) + 0.4) if figure is None else figure
    panels = figure.subplots(len(weights), number, squeeze=False)
    for index, (name, values) in enumerate(weights.items()):
        array = numbers(values, name)
        if array.ndim != 2 or len(array) not in (1, number):
            raise ValueError(f"{name} has shape {array.shape}; expected ({number}, P) or (1, P), a row for each word.")
        rows = np.broadcast_to(array, (number, array.shape[1]))
        for ax, word, own in zip(panels[index], words, rows, strict=True):
            heading = "" if index else legible(word, 18)
            _overlay(ax, picture, grid(own, name), "Blues", heading, float(array.max()), bar=False)
        panels[index][0].set_ylabel(name)
    return figure_of(figure)


@styled()
def image_answers(
    images: Mapping[str, Numbers],
    question: str,
    samples: Mapping[str, Numbers],
    names: Sequence[str],
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Plot images, a question about them, and the most probable answers with the p-value of their difference.

    The p-value is that of the t-test between the two most probable answers over the samples; a small one means that
    the samples agree on the answer.

    Args:
        images: (height, width, 3) colours by the title of their panel: the original and a noisy one, for instance.
        question: the question.
        samples: (S, C) probabilities of the answers for each image, by the same titles.
        names: C answers.
    """
    if set(images) != set(samples) or not images:
        raise ValueError(f"samples has {list(samples)}; expected the titles of the images, {list(images)}.")
    figure = canvas(PANEL * len(images) + 0.8, PANEL + 1.7) if figure is None else figure
    panels = figure.subplots(2, len(images), squeeze=False, gridspec_kw={"height_ratios": (PANEL, 1.0)})
    for (title, image), above, below in zip(images.items(), panels[0], panels[1], strict=True):
        _picture(above, pixels(image), title)
        _answers(below, probabilities(samples[title], names), names)
    figure.suptitle(legible(question, 60), x=0.02, ha="left")
    return figure_of(figure)


def _answers(ax: Axes, values: Array, names: Sequence[str]) -> None:
    """Draw the means of the most probable answers, with their standard deviations, and the p-value."""
    order = np.argsort(-values.mean(axis=0))[:SHOWN_ANSWERS]
    mean, std = values.mean(axis=0)[order], values.std(axis=0, ddof=1)[order] if len(values) > 1 else None
    place = range(len(order))
    ax.barh(place, mean, xerr=std, color=BLUE, ecolor=GREY, height=0.7)
    ax.set_yticks(place, [legible(names[i], 14) for i in order])
    ax.invert_yaxis()
    p_value = float(top_two_p_values(values[:, None])[0]) if len(values) > 1 else math.nan
    ax.set(xlim=(0, 1), xlabel="probability" if math.isnan(p_value) else f"probability, p = {p_value:.2g}")
    ax.grid(False, axis="y")
    tidy(ax, 9)


def probabilities(samples: Numbers, names: Sequence[str]) -> Array:
    """Return samples of shape (S, C)."""
    values = numbers(samples, "samples")
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(f"samples has shape {values.shape}; expected (S, {len(names)}), a column for each answer.")
    return values


def pixels(image: Numbers) -> Array:
    """Return the pixels of an image between 0 and 1."""
    array = numbers(image, "image")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] != 3):
        raise ValueError(
            f"image has shape {array.shape}; expected (height, width, 3) or (height, width). Move the channels of a "
            "tensor to the end: image.permute(1, 2, 0)."
        )
    return np.clip(array / 255 if array.max() > 1 else array, 0, 1)


def grid(weights: Numbers, name: str) -> Array:
    """Return weights of patches as (rows, columns); a vector has as many rows as columns."""
    array = numbers(weights, name)
    if array.ndim == 1:
        side = math.isqrt(len(array))
        if side * side == len(array):
            return array.reshape(side, side)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; expected (rows, columns), or a square number of patches. Leave the "
            "class token out, and take the mean over the heads."
        )
    return array


def _picture(ax: Axes, picture: Array, title: str) -> None:
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    ax.set_title(legible(title, 30))
    _bare(ax)


def _overlay(
    ax: Axes, picture: Array, weights: Array, colors: str, title: str, highest: float | None = None, bar: bool = True
) -> None:
    """Draw weights over a pale picture."""
    height, width = picture.shape[:2]
    pale = 1 - 0.35 * (1 - picture)
    ax.imshow(pale, cmap="gray", vmin=0, vmax=1)
    most = float(weights.max()) if highest is None else highest
    drawn = ax.imshow(
        weights, cmap=colors, vmin=0, vmax=most or 1.0, alpha=0.65, extent=(-0.5, width - 0.5, height - 0.5, -0.5)
    )
    ax.set_title(title)
    _bare(ax)
    if bar:
        colorbar = figure_of(ax).colorbar(drawn, ax=ax, shrink=0.8, pad=0.03)
        colorbar.outline.set_visible(False)
        tidy(colorbar.ax, 8)


def _bare(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)
