"""Checks of figures: the data of their artists, and the pixels of the file that they are saved to."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.image import imread


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


def tick_texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def save(figure, folder):
    """Save a figure and return its pixels, (height, width, 3).

    Saving runs the layout and looks up every glyph; a missing one is a warning, and so an error. Everything that the
    figure shows is inside it.
    """
    path = folder / "figure.png"
    figure.savefig(path, dpi=figure.dpi)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= width
    assert box.y1 <= height
    return imread(path)[..., :3]


def color_at(pixels, ax, x, y):
    """Return the colour of the pixel that shows the data point (x, y) of axes."""
    column, row = ax.transData.transform((x, y)).astype(int)
    return pixels[len(pixels) - 1 - row, column]


def share_of(pixels, color):
    """Return the share of pixels of a colour, up to the rounding of 8 bits."""
    return (abs(pixels - np.array(to_rgb(color))) < 1 / 128).all(axis=-1).mean()


def legend_texts(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
