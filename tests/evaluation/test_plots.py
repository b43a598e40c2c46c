import threading
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from torchmetrics.functional.classification import multiclass_calibration_error

from hf_bam.evaluation import plots
from hf_bam.evaluation.plots.style import PALETTE, legible

# Confidences 0.55, 0.65, 0.95, 0.95: with ten bins, half of the last bin and all of the bin below 0.6 are right.
PROBABILITIES = np.array([[0.45, 0.55], [0.65, 0.35], [0.95, 0.05], [0.05, 0.95]])
LABELS = np.array([1, 1, 0, 0])


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


def draw(figure, tmp_path):
    """Saving runs the layout and looks up every glyph; a missing one would be a warning, and so an error.

    Nothing is cut off, and the picture is not blank.
    """
    figure.savefig(tmp_path / "figure.png")
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= width
    assert box.y1 <= height
    assert len(np.unique(imread(tmp_path / "figure.png"))) > 2


def tick_texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_reliability_bars_are_the_accuracies_of_the_filled_bins(tmp_path):
    figure = plots.reliability_diagram(LABELS, PROBABILITIES, bins=10)
    upper, lower = figure.axes
    assert heights(upper) == [1.0, 0.0, 0.5]
    assert [bar.get_x() for bar in upper.patches] == pytest.approx([0.5, 0.6, 0.9])
    assert heights(lower) == [0, 0, 0, 0, 0, 1, 1, 0, 0, 2]
    # (|1 - 0.55| + |0 - 0.65| + 2 |0.5 - 0.95|) / 4 = 0.5
    assert upper.get_title(loc="left") == "ECE 0.500"
    draw(figure, tmp_path)


def test_reliability_has_the_diagonal():
    (diagonal,) = plots.reliability_diagram(LABELS, PROBABILITIES).axes[0].lines
    np.testing.assert_array_equal(diagonal.get_data(), [[0, 1], [0, 1]])


def test_reliability_is_that_of_the_mean_over_the_draws():
    shift = np.array([[0.04, -0.04]])
    draws = torch.tensor(np.stack([PROBABILITIES + shift, PROBABILITIES - shift]))
    figure = plots.reliability_diagram(torch.tensor(LABELS), draws, bins=10, title="BAM")
    assert heights(figure.axes[0]) == [1.0, 0.0, 0.5]
    assert figure.axes[0].get_title(loc="left") == "BAM: ECE 0.500"


def test_a_confidence_on_an_edge_is_in_the_lower_bin_as_in_ece():
    lower = plots.reliability_diagram([0, 0], [[0.5, 0.5], [1.0, 0.0]], bins=2).axes[1]
    assert heights(lower) == [1, 1]


def test_reliability_draws_into_parts_of_a_figure():
    figure = Figure(layout="constrained")
    for part in figure.subfigures(1, 2):
        assert plots.reliability_diagram(LABELS, PROBABILITIES, figure=part) is figure
    assert len(figure.axes) == 4


def test_risk_coverage_shows_every_method_and_its_oracle(tmp_path):
    losses = np.array([0, 0, 1, 1])
    methods = {"good": (losses, np.array([1, 2, 3, 4])), "bad": (torch.tensor(losses), torch.tensor([4, 3, 2, 1]))}
    figure = plots.risk_coverage(methods)
    good, oracle, bad, other = figure.axes[0].lines
    np.testing.assert_allclose(good.get_data(), [[0.25, 0.5, 0.75, 1], [0, 0, 1 / 3, 1 / 2]])
    np.testing.assert_allclose(bad.get_ydata(), [1, 1, 2 / 3, 1 / 2])
    np.testing.assert_allclose(oracle.get_ydata(), other.get_ydata())
    np.testing.assert_allclose(oracle.get_ydata(), good.get_ydata())
    assert [line.get_linestyle() for line in (good, oracle, bad, other)] == ["-", "--", "-", "--"]
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == ["good (AURC 0.208)", "bad (AURC 0.792)", "oracle"]
    draw(figure, tmp_path)


def test_long_names_stay_inside_the_figure():
    risk = plots.risk_coverage({"m" * 60: ([0, 1], [1, 2])})
    bars = plots.reliability_diagram(LABELS, PROBABILITIES, title="x" * 60)
    for figure, part in ((risk, risk.axes[0].get_legend()), (bars, bars.axes[0].title)):
        figure.draw_without_rendering()
        assert part.get_window_extent().x1 <= figure.bbox.x1


def test_one_confident_error_does_not_flatten_the_curves():
    losses = np.zeros(100)
    losses[[0, 98, 99]] = 1
    ax = plots.risk_coverage({"a": (losses, np.arange(100))}).axes[0]
    assert ax.lines[0].get_ydata().max() == 1
    assert ax.get_ylim()[1] == pytest.approx(1.05 * 0.1)


def test_risk_without_any_error_is_drawn(tmp_path):
    draw(plots.risk_coverage({"a": (np.zeros(5), np.arange(5))}), tmp_path)


def test_risk_coverage_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="methods is empty"):
        plots.risk_coverage({})


def test_doubt_histograms_are_shares_of_each_group(tmp_path):
    figure = plots.uncertainty_histograms([0, 0, 0, 1], [0.1, 0.1, 0.9, 0.9], [0.9, 2.0], bins=2, limits=(0, 1))
    stairs = {patch.get_label(): patch.get_data().values for patch in figure.axes[0].patches if patch.get_label()}
    np.testing.assert_allclose(stairs["right (3)"], [2 / 3, 1 / 3])
    np.testing.assert_allclose(stairs["wrong (1)"], [0, 1])
    np.testing.assert_allclose(stairs["out of distribution (2)"], [0, 1])  # what lies beyond the limits counts too
    draw(figure, tmp_path)


@pytest.mark.parametrize("errors", [[0, 0, 0], [1, 1, 1]])
def test_doubt_of_right_or_wrong_answers_only(errors, tmp_path):
    figure = plots.uncertainty_histograms(errors, [0.5, 0.5, 0.5], title="all alike")
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == [f"right ({errors.count(0)})", f"wrong ({errors.count(1)})"]
    draw(figure, tmp_path)


def test_heatmap_shows_the_weights_over_the_tokens(tmp_path):
    mean, spread = torch.eye(2, 3, dtype=torch.bfloat16), torch.full((2, 3), 0.25)
    figure = plots.attention_heatmap(mean, spread, ["the", "house"], ["das", "Haus", "."])
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.images[0].get_array(), [[1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(right.images[0].get_array(), np.full((2, 3), 0.25))
    draw(figure, tmp_path)
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


def test_heatmap_of_all_heads_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"mean has shape \(4, 2, 2\); expected \(2, 2\).*mean over the heads"):
        plots.attention_heatmap(np.ones((4, 2, 2)), np.ones((2, 2)), "ab", "ab")


def test_prior_of_one_head_is_bars_with_the_uniform_line(tmp_path):
    figure = plots.prior_over_keys(["a", "b", "c"], torch.tensor([0.5, 0.25, 0.25]))
    ax = figure.axes[0]
    assert heights(ax) == [0.5, 0.25, 0.25]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 1 / 3)
    draw(figure, tmp_path)
    assert tick_texts(ax.xaxis) == ["a", "b", "c"]


def test_prior_of_several_heads_is_a_strip_for_each(tmp_path):
    psi = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]])
    figure = plots.prior_over_keys(["a", "b"], psi)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), psi)
    draw(figure, tmp_path)
    assert tick_texts(figure.axes[0].yaxis) == ["0", "1", "2"]


def test_prior_must_fit_the_tokens():
    with pytest.raises(ValueError, match=r"psi has shape \(3,\); expected \(2,\) or \(heads, 2\)"):
        plots.prior_over_keys(["a", "b"], [0.2, 0.3, 0.5])


def test_any_token_can_be_drawn(tmp_path):
    tokens = ["$x$", "a_b^c", "\\frac", "\n", "", "\U0001f600\u200d", "\u7535\u5f71", "\u0641\u064a", "\x00", "w" * 99]
    draw(plots.prior_over_keys(tokens, np.full(len(tokens), 0.1)), tmp_path)


@pytest.mark.parametrize(("text", "shown"), [("a\n b", "a b"), ("$5", r"\$5"), ("abcdef", "abc…"), ("\x00a", "a")])
def test_legible(text, shown):
    assert legible(text, limit=4) == shown


@pytest.mark.parametrize("name", ["_hidden", "50 $ or $ 60"])
def test_any_method_name_reaches_the_legend(name, tmp_path):
    figure = plots.risk_coverage({name: ([0, 1], [1, 2])})
    draw(figure, tmp_path)
    assert len(figure.axes[0].get_legend().get_texts()) == 2


def test_given_axes_are_drawn_into():
    figure = Figure()
    first, second, third = figure.subplots(1, 3)
    assert plots.risk_coverage({"a": ([0, 1], [1, 2])}, ax=first) is figure
    assert plots.uncertainty_histograms([0, 1], [1, 2], ax=second) is figure
    assert plots.prior_over_keys(["a"], [1.0], ax=third) is figure


def test_settings_outside_stay_as_they_were_also_with_threads():
    before = dict(matplotlib.rcParams)
    work = [threading.Thread(target=plots.prior_over_keys, args=(["a"], [1.0])) for _ in range(8)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert dict(matplotlib.rcParams) == before


def test_ten_methods_look_different():
    pair = ([0, 1], [1, 2])
    lines = plots.risk_coverage({str(number): pair for number in range(10)}).axes[0].lines[::2]
    assert tuple(line.get_color() for line in lines[:7]) == PALETTE
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 10


def test_title_is_the_error_that_torchmetrics_finds():
    draws = torch.randn(8, 200, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    labels = torch.arange(200) % 3
    error = multiclass_calibration_error(draws.mean(0), labels, num_classes=3, n_bins=12).item()
    title = plots.reliability_diagram(labels, draws, bins=12).axes[0].get_title(loc="left")
    assert error > 0.01
    assert title == f"ECE {error:.3f}"
