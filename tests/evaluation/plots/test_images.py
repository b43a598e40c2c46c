"""Attention over images: what is drawn where, from decoded pixels and from the artists of the figures."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from hf_bam import plots

from .cases import color_at, save, tick_texts

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.integers(0, 256, size=(16, 16, 3)).astype(np.uint8)


def drawn(ax):
    """Return the array of the last picture of some axes."""
    return np.asarray(ax.images[-1].get_array())


def test_mean_and_spread_lie_over_the_image():
    mean, spread = np.arange(16.0), RANDOM.uniform(size=(4, 4))
    figure = plots.image_attention(IMAGE, mean, spread, title="Which colour?")
    image, first, second = [ax for ax in figure.axes if ax.images]
    np.testing.assert_allclose(drawn(image), IMAGE / 255)
    np.testing.assert_allclose(drawn(first), mean.reshape(4, 4))
    np.testing.assert_allclose(drawn(second), spread)
    assert list(first.images[-1].get_extent()) == list(first.images[0].get_extent())
    assert figure.get_suptitle() == "Which colour?"


def test_a_patch_with_attention_is_darker(tmp_path):
    weights = np.zeros((2, 2))
    weights[0, 1] = 1.0
    figure = plots.image_attention(np.ones((8, 8)), weights, weights)
    ax = [ax for ax in figure.axes if ax.images][1]
    page = save(figure, tmp_path)
    assert color_at(page, ax, 6, 2).sum() < color_at(page, ax, 2, 6).sum() - 0.5  # upper right, lower left


def test_every_word_has_a_picture_on_the_scale_of_its_row():
    posterior, prior = RANDOM.dirichlet(np.ones(9), size=3), RANDOM.dirichlet(np.ones(9), size=1)
    figure = plots.image_words(IMAGE, ["a", "red", "cat"], {"prior": prior, "posterior": posterior})
    assert len(figure.axes) == 6
    for index, ax in enumerate(figure.axes):
        own = prior[0] if index < 3 else posterior[index - 3]
        np.testing.assert_allclose(drawn(ax), own.reshape(3, 3))
        assert ax.images[-1].get_clim() == (0, pytest.approx((prior if index < 3 else posterior).max()))
    assert [ax.get_title("left") for ax in figure.axes[:3]] == ["a", "red", "cat"]
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["prior", "posterior"]


def test_answers_in_their_order_with_the_p_value_of_scipy():
    samples, names = RANDOM.dirichlet([3.0, 6.0, 1.0, 0.5], size=12), ["box", "ball", "cone", "ring"]
    figure = plots.image_answers({"image": IMAGE}, "Which shape?", {"image": samples}, names)
    bars, mean = figure.axes[1], samples.mean(axis=0)
    order = np.argsort(-mean)[:3]
    assert tick_texts(bars.yaxis) == [names[i] for i in order]
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], mean[order])
    p_value = ttest_ind(samples[:, order[0]], samples[:, order[1]]).pvalue
    assert bars.get_xlabel() == f"probability, p = {p_value:.2g}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.image_attention(np.zeros((3, 8, 8)), np.ones(4), np.ones(4)), r"permute\(1, 2, 0\)"),
        (lambda: plots.image_attention(IMAGE, np.ones(5), np.ones(5)), "Leave the class token out"),
        (lambda: plots.image_words(IMAGE, ["a", "b"], {"prior": np.ones((3, 4))}), "a row for each word"),
        (lambda: plots.image_words(IMAGE, [], {}), "must not be empty"),
        (lambda: plots.image_answers({"a": IMAGE}, "?", {"b": np.ones((2, 3))}, "xyz"), "the titles of the images"),
        (lambda: plots.image_answers({"a": IMAGE}, "?", {"a": np.ones((2, 2))}, "xyz"), "a column for each answer"),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
