"""Risk-coverage curves and histograms of uncertainty, against hand-computed values and numpy."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from hf_bam.evaluation import plots
from hf_bam.evaluation.plots.style import BLUE, INK, PALETTE, VERMILION

from .cases import legend_texts, save, share_of

PAIR = ([0, 1], [1, 2])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def shares(figure):
    """Return the histogram of each group by its label."""
    return {patch.get_label(): patch.get_data().values for patch in figure.axes[0].patches if patch.get_label()}


def test_risk_coverage_shows_every_method_and_its_oracle(tmp_path):
    losses = np.array([0, 0, 1, 1])
    methods = {"good": (losses, np.array([1, 2, 3, 4])), "bad": (torch.tensor(losses), torch.tensor([4, 3, 2, 1]))}
    figure = plots.risk_coverage(methods)
    good, bad, oracle = figure.axes[0].lines  # the same losses have the same oracle
    np.testing.assert_allclose(good.get_data(), [[0.25, 0.5, 0.75, 1], [0, 0, 1 / 3, 1 / 2]])
    np.testing.assert_allclose(bad.get_ydata(), [1, 1, 2 / 3, 1 / 2])
    np.testing.assert_allclose(oracle.get_ydata(), good.get_ydata())
    assert [line.get_linestyle() for line in (good, bad, oracle)] == ["-", "-", ":"]
    assert good.get_linewidth() > bad.get_linewidth()  # so that a curve on another one does not hide it
    assert legend_texts(figure) == ["good (AURC 0.208)", "bad (AURC 0.792)", "oracle"]
    pixels = save(figure, tmp_path)
    assert share_of(pixels, BLUE) > 1e-3
    assert share_of(pixels, VERMILION) > 1e-3


def test_the_curve_is_the_running_mean_of_the_losses(rng):
    losses, scores = rng.random(50), rng.permutation(50)
    curve, oracle = plots.risk_coverage({"a": (losses, scores)}).axes[0].lines
    ranks = np.arange(1, 51)
    np.testing.assert_allclose(curve.get_data(), [ranks / 50, losses[scores.argsort()].cumsum() / ranks])
    np.testing.assert_allclose(oracle.get_data(), [ranks / 50, np.sort(losses).cumsum() / ranks])


def test_one_confident_error_does_not_flatten_the_curves():
    losses = np.zeros(100)
    losses[[0, 98, 99]] = 1
    ax = plots.risk_coverage({"a": (losses, np.arange(100))}).axes[0]
    assert ax.lines[0].get_ydata().max() == 1
    assert ax.get_ylim()[1] == pytest.approx(1.05 * 0.1)


def test_risk_without_any_error(tmp_path):
    figure = plots.risk_coverage({"a": (np.zeros(5), np.arange(5))})
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), np.zeros(5))
    assert figure.axes[0].get_ylim() == (0, 1)
    save(figure, tmp_path)


def test_risk_coverage_without_methods_is_an_error():
    with pytest.raises(ValueError, match="methods is empty"):
        plots.risk_coverage({})


def test_a_long_method_name_stays_inside_the_figure():
    figure = plots.risk_coverage({"m" * 60: PAIR})
    figure.draw_without_rendering()
    assert figure.axes[0].get_legend().get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize("name", ["_hidden", "50 $ or $ 60"])
def test_any_method_name_reaches_the_legend(name, tmp_path):
    figure = plots.risk_coverage({name: PAIR})
    save(figure, tmp_path)
    assert legend_texts(figure) == [f"{name} (AURC 0.250)".replace("$", r"\$"), "oracle"]


def test_ten_methods_look_different():
    lines = plots.risk_coverage({str(number): PAIR for number in range(10)}).axes[0].lines[:10]
    assert tuple(line.get_color() for line in lines[:7]) == PALETTE
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 10


def test_histograms_are_shares_of_each_group(tmp_path):
    figure = plots.uncertainty_histograms([0, 0, 0, 1], [0.1, 0.1, 0.9, 0.9], [0.4, 2.0], bins=2, limits=(0, 1))
    found = shares(figure)
    np.testing.assert_allclose(found["correct (3)"], [2 / 3, 1 / 3])
    np.testing.assert_allclose(found["incorrect (1)"], [0, 1])
    np.testing.assert_allclose(found["out-of-distribution (2)"], [1 / 2, 1 / 2])  # with the value beyond the limits
    pixels = save(figure, tmp_path)
    assert all(share_of(pixels, color) > 1e-3 for color in (BLUE, VERMILION, INK))


def test_histograms_are_those_of_numpy(rng):
    scores, out_scores, errors = rng.random(80), 2 * rng.random(30), rng.random(80) < 0.3
    found = shares(plots.uncertainty_histograms(errors, scores, out_scores, bins=7))
    limits = (min(scores.min(), out_scores.min()), max(scores.max(), out_scores.max()))
    groups = {"correct": scores[~errors], "incorrect": scores[errors], "out-of-distribution": out_scores}
    for (name, values), (label, share) in zip(groups.items(), found.items(), strict=True):
        assert label == f"{name} ({len(values)})"
        np.testing.assert_allclose(share, np.histogram(values, 7, limits)[0] / len(values))


@pytest.mark.parametrize("errors", [[0, 0, 0], [1, 1, 1]])
def test_uncertainty_of_a_single_group(errors, tmp_path):
    figure = plots.uncertainty_histograms(errors, [0.5, 0.5, 0.5], title="all equal")
    assert legend_texts(figure) == [f"correct ({errors.count(0)})", f"incorrect ({errors.count(1)})"]
    assert [share.sum() for share in shares(figure).values()] == [1 - errors[0], errors[0]]
    save(figure, tmp_path)


def test_given_axes_are_drawn_into():
    figure = Figure()
    first, second, third = figure.subplots(1, 3)
    assert plots.risk_coverage({"a": PAIR}, ax=first) is figure
    assert plots.uncertainty_histograms([0, 1], [1, 2], ax=second) is figure
    assert plots.prior_over_keys(["a"], [1.0], ax=third) is figure
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in (first, second, third))
