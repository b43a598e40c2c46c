"""Plots of single inputs."""

import numpy as np
import pytest

from hf_bam.evaluation import plots

from .cases import legend_texts, save


def points(figure):
    """Return the points of each group by its name in the legend."""
    return {own.get_label(): own.get_offsets() for own in figure.axes[0].collections if own.get_label()[0] != "_"}


def test_parts_of_the_uncertainty(tmp_path):
    figure = plots.uncertainty_parts([0.1, 0.2, 0.3], [0.0, 0.1, 0.4], [0, 1, 0.5], ([0.6], [0.7]), title="a method")
    found = points(figure)
    np.testing.assert_allclose(found["correct (1)"], [[0.1, 0.0]])
    np.testing.assert_allclose(found["incorrect (2)"], [[0.2, 0.1], [0.3, 0.4]])
    np.testing.assert_allclose(found["out-of-distribution (1)"], [[0.6, 0.7]])
    save(figure, tmp_path)


def test_loss_and_the_means_of_ten_groups():
    rng = np.random.default_rng(0)
    losses, scores = rng.random(40), rng.permutation(40)
    figure = plots.loss_against_uncertainty(losses, scores, name="1 - F1")
    (line,) = figure.axes[0].lines
    expected = losses[scores.argsort()].reshape(10, 4).mean(axis=1)
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert figure.axes[0].get_ylabel() == "1 - F1"


def test_numbers_inside_and_outside_of_their_intervals():
    ends = np.array([[0.5, 1.5], [2.5, 3.0]])
    found = points(plots.predicted_numbers([1.0, 2.0], [1.1, 2.7], ends))
    np.testing.assert_allclose(found["target inside (1)"], [[1.0, 1.1]])
    np.testing.assert_allclose(found["target outside (1)"], [[2.0, 2.7]])
    single = plots.predicted_numbers([1.0, 2.0], [1.1, 2.7], np.array([[1.1, 1.1], [2.7, 2.7]]))
    assert legend_texts(single) == ["inputs (2)"]


def test_lengths_must_fit():
    with pytest.raises(ValueError, match="losses"):
        plots.uncertainty_parts([0.1, 0.2], [0.0, 0.1], [0])
