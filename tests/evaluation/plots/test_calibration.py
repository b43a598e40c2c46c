"""Reliability diagrams, against hand-computed bins, scikit-learn, numpy and torchmetrics."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import multiclass_calibration_error

from hf_bam.evaluation import plots
from hf_bam.evaluation.plots.calibration import wilson
from hf_bam.evaluation.plots.style import BLUE, GREY

from .cases import color_at, heights, save

# Confidences 0.55, 0.65, 0.95, 0.95: with ten bins, half of the last bin and all of the bin below 0.6 are correct.
PROBABILITIES = np.array([[0.45, 0.55], [0.65, 0.35], [0.95, 0.05], [0.05, 0.95]])
LABELS = np.array([1, 1, 0, 0])


@pytest.fixture(scope="module")
def random_predictions():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(200, 3, generator=generator) + torch.randn(8, 200, 3, generator=generator)
    samples = logits.softmax(-1)
    return torch.arange(200) % 3, samples


def test_bars_are_the_accuracies_of_the_filled_bins(tmp_path):
    figure = plots.reliability_diagram(LABELS, PROBABILITIES, bins=10)
    upper, lower = figure.axes
    assert heights(upper) == [1.0, 0.0, 0.5]
    assert [bar.get_x() for bar in upper.patches] == pytest.approx([0.5, 0.6, 0.9])
    assert heights(lower) == [0, 0, 0, 0, 0, 1, 1, 0, 0, 2]
    # (|1 - 0.55| + |0 - 0.65| + 2 |0.5 - 0.95|) / 4 = 0.5
    assert upper.get_title(loc="left") == "ECE 0.500"
    pixels = save(figure, tmp_path)
    for x, y, color in ((0.53, 0.9, BLUE), (0.93, 0.4, BLUE), (0.93, 0.6, "white"), (0.63, 0.2, "white")):
        np.testing.assert_allclose(color_at(pixels, upper, x, y), to_rgb(color), atol=0.15)
    np.testing.assert_allclose(color_at(pixels, lower, 0.95, 1.0), to_rgb(GREY), atol=1 / 128)


def test_intervals_are_those_of_scipy():
    low, high = wilson(np.array([0.0, 0.5, 0.9, 1.0]), np.array([4, 10, 50, 3]))
    for index, (right, number) in enumerate(((0, 4), (5, 10), (45, 50), (3, 3))):
        expected = binomtest(right, number).proportion_ci(0.95, method="wilson")
        assert (low[index], high[index]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_bars_and_counts_are_those_of_scikit_learn_and_numpy(random_predictions):
    labels, samples = random_predictions
    confidence, classes = samples.mean(dim=0).max(dim=-1)
    accuracy, _ = calibration_curve(classes == labels, confidence, n_bins=12)
    upper, lower = plots.reliability_diagram(labels, samples, bins=12).axes
    assert len(accuracy) > 4
    np.testing.assert_allclose(heights(upper), accuracy)
    np.testing.assert_array_equal(heights(lower), np.histogram(confidence, 12, (0, 1))[0])


def test_the_title_has_the_calibration_error_of_torchmetrics(random_predictions):
    labels, samples = random_predictions
    error = multiclass_calibration_error(samples.mean(0), labels, num_classes=3, n_bins=12).item()
    title = plots.reliability_diagram(labels, samples, bins=12).axes[0].get_title(loc="left")
    assert error > 0.01
    assert title == f"ECE {error:.3f}"


def test_the_diagonal():
    (diagonal,) = plots.reliability_diagram(LABELS, PROBABILITIES).axes[0].lines
    np.testing.assert_array_equal(diagonal.get_data(), [[0, 1], [0, 1]])


def test_samples_are_averaged():
    shift = np.array([[0.04, -0.04]])
    samples = torch.tensor(np.stack([PROBABILITIES + shift, PROBABILITIES - shift]))
    figure = plots.reliability_diagram(torch.tensor(LABELS), samples, bins=10, title="BAM")
    assert heights(figure.axes[0]) == [1.0, 0.0, 0.5]
    assert figure.axes[0].get_title(loc="left") == "BAM\nECE 0.500"


def test_a_confidence_on_an_edge_is_in_the_lower_bin_as_in_ece():
    lower = plots.reliability_diagram([0, 0], [[0.5, 0.5], [1.0, 0.0]], bins=2).axes[1]
    assert heights(lower) == [1, 1]


def test_subfigures_can_be_drawn_into():
    figure = Figure(layout="constrained")
    for part in figure.subfigures(1, 2):
        assert plots.reliability_diagram(LABELS, PROBABILITIES, figure=part) is figure
    assert len(figure.axes) == 4


def test_a_long_title_stays_inside_the_figure(tmp_path):
    save(
        plots.reliability_diagram(LABELS, PROBABILITIES, title="MC dropout, 32 samples + temperature, " * 2), tmp_path
    )
