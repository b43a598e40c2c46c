"""Heatmaps of attention and plots of the prior."""

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from hf_bam.evaluation import plots
from hf_bam.evaluation.plots.style import BLUE

from .cases import color_at, heights, save, tick_texts


def test_heatmap_shows_the_weights_over_the_tokens(tmp_path):
    mean, spread = torch.eye(2, 3, dtype=torch.bfloat16), torch.full((2, 3), 0.25)
    figure = plots.attention_heatmap(mean, spread, ["the", "house"], ["das", "Haus", "."])
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.images[0].get_array(), [[1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(right.images[0].get_array(), np.full((2, 3), 0.25))
    pixels = save(figure, tmp_path)
    for query, key in np.ndindex(2, 3):
        expected = matplotlib.colormaps["Blues"](float(mean[query, key]))[:3]
        np.testing.assert_allclose(color_at(pixels, left, key, query), expected, atol=1 / 128)
    assert tick_texts(left.yaxis) == ["the", "house"]
    assert tick_texts(left.xaxis) == tick_texts(right.xaxis) == ["das", "Haus", "."]


@pytest.mark.parametrize("count", [3, 12, 40])
def test_labels_of_a_heatmap_do_not_overlap(count):
    tokens = ["[CLS]", *["##ability"] * (count - 2), "[SEP]"]
    weights = np.full((count, count), 1 / count)
    figure = plots.attention_heatmap(weights, np.zeros_like(weights), tokens, tokens)
    figure.draw_without_rendering()
    for ax in figure.axes[:2]:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
        assert all(one.x1 <= two.x0 for one, two in pairwise(boxes))
    rows = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(lower.y1 <= upper.y0 for upper, lower in pairwise(rows))
    assert figure.get_tightbbox().x0 >= 0


def test_alignments_side_by_side_have_one_scale_and_the_reference(tmp_path):
    soft, hard = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]), np.eye(2, 3)
    reference = [[True, False, False], [False, False, True]]
    figure = plots.alignment_heatmap(
        {"soft": soft, "posterior": hard}, ["das", "Haus", "."], ["house", "."], reference=reference
    )
    left, right, bar = figure.axes
    assert [ax.get_title(loc="left") for ax in (left, right)] == ["soft", "posterior"]
    assert tick_texts(left.yaxis) == ["house", "."]
    assert tick_texts(left.xaxis) == tick_texts(right.xaxis) == ["das", "Haus", "."]
    pixels = save(figure, tmp_path)
    for ax, values in ((left, soft.numpy()), (right, hard)):
        for token, key in np.ndindex(2, 3):
            expected = matplotlib.colormaps["Blues"](float(values[token, key]))[:3]
            np.testing.assert_allclose(color_at(pixels, ax, key, token), expected, atol=1 / 128)
        framed = sorted(tuple(np.round(patch.get_xy()).astype(int)) for patch in ax.patches)
        assert framed == [(0, 0), (2, 1)]
    assert bar.get_ylim() == (0, 1)


def test_alignments_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"prior has shape \(2, 2\); expected \(1, 2\)"):
        plots.alignment_heatmap({"soft": np.ones((1, 2)), "prior": np.ones((2, 2))}, "ab", "c")
    with pytest.raises(ValueError, match="weights is empty; expected at least one panel"):
        plots.alignment_heatmap({}, "ab", "c")


def test_heatmap_of_all_heads_is_an_error_with_the_way_out():
    with pytest.raises(ValueError, match=r"mean has shape \(4, 2, 2\); expected \(2, 2\).*mean over the heads"):
        plots.attention_heatmap(np.ones((4, 2, 2)), np.ones((2, 2)), "ab", "ab")


def test_prior_of_one_head_is_bars_with_the_uniform_line(tmp_path):
    figure = plots.prior_over_keys(["a", "b", "c"], torch.tensor([0.5, 0.25, 0.25]))
    ax = figure.axes[0]
    assert heights(ax) == [0.5, 0.25, 0.25]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 1 / 3)
    pixels = save(figure, tmp_path)
    np.testing.assert_allclose(color_at(pixels, ax, 0, 0.45), to_rgb(BLUE), atol=1 / 128)
    assert color_at(pixels, ax, 1, 0.45).min() > 0.85  # above the bar: background or grid
    assert tick_texts(ax.xaxis) == ["a", "b", "c"]


def test_prior_of_several_heads_is_a_strip_for_each(tmp_path):
    psi = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]])
    figure = plots.prior_over_keys(["a", "b"], psi)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), psi)
    pixels = save(figure, tmp_path)
    expected = matplotlib.colormaps["Blues"](0.8)[:3]
    np.testing.assert_allclose(color_at(pixels, figure.axes[0], 1, 2), expected, atol=1 / 128)
    assert tick_texts(figure.axes[0].yaxis) == ["0", "1", "2"]


def test_a_prior_of_another_length_is_an_error():
    with pytest.raises(ValueError, match=r"psi has shape \(3,\); expected \(2,\) or \(heads, 2\)"):
        plots.prior_over_keys(["a", "b"], [0.2, 0.3, 0.5])


def test_any_token_can_be_shown(tmp_path):
    tokens = ["$x$", "a_b^c", "\\frac", "\n", "", "\U0001f600\u200d", "\u7535\u5f71", "\u0641\u064a", "\x00", "w" * 99]
    figure = plots.prior_over_keys(tokens, np.full(len(tokens), 0.1))
    save(figure, tmp_path)
    shown = tick_texts(figure.axes[0].xaxis)
    assert len(shown) == len(tokens)
    assert shown[:2] == [r"\$x\$", "a_b^c"]
    assert shown[-1] == "w" * 17 + "…"
