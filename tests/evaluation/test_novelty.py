"""Distances of features, against scikit-learn's and scipy's."""

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from hf_bam.evaluation.novelty import FeatureGaussians, LayerGaussians, percentiles

CLASSES, SIZE = 3, 6


def features(number, seed=0, shift=0.0):
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=number)
    labels[:CLASSES] = range(CLASSES)
    means = np.random.default_rng(9).normal(size=(CLASSES, SIZE)) * 3
    mixing = np.random.default_rng(10).normal(size=(SIZE, SIZE))
    return means[labels] + shift + random.normal(size=(number, SIZE)) @ mixing, labels


def test_distances_are_those_of_scipy_with_the_covariance_of_scikit_learn():
    x, labels = features(200)
    found = FeatureGaussians.fit(x, labels)
    means = np.stack([x[labels == c].mean(axis=0) for c in range(CLASSES)])
    within = LedoitWolf(assume_centered=True).fit(x - means[labels])
    total = LedoitWolf().fit(x)
    new, _ = features(20, seed=1)
    expected = [min(mahalanobis(row, mean, within.precision_) ** 2 for mean in means) for row in new]
    np.testing.assert_allclose(found.mahalanobis(new), expected, rtol=1e-6)
    background = total.mahalanobis(new)
    np.testing.assert_allclose(found.relative_mahalanobis(new), expected - background, rtol=1e-6, atol=1e-6)


def test_other_inputs_are_farther():
    found = FeatureGaussians.fit(*features(400))
    known, other = features(300, seed=1)[0], features(300, seed=2, shift=4.0)[0]
    for name in ("mahalanobis", "relative_mahalanobis"):
        scores = [getattr(found, name)(x) for x in (known, other)]
        assert roc_auc_score([0] * 300 + [1] * 300, np.concatenate(scores)) > 0.9


def test_distances_do_not_depend_on_the_scale_of_the_features():
    x, labels = features(200)
    new, _ = features(10, seed=3)
    scale = np.full(SIZE, 1e-3)
    one = FeatureGaussians.fit(x, labels).mahalanobis(new)
    other = FeatureGaussians.fit(x * scale, labels).mahalanobis(new * scale)
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_few_examples_and_constant_features_have_finite_distances():
    x, labels = features(8)
    x[:, 0] = 1.0
    found = FeatureGaussians.fit(x, labels)
    assert np.isfinite(found.relative_mahalanobis(features(5, seed=4)[0])).all()


def test_a_class_without_examples_and_wrong_shapes_are_errors():
    x, labels = features(20)
    with pytest.raises(ValueError, match="no example of class 1"):
        FeatureGaussians.fit(x, np.where(labels == 1, 2, labels))
    with pytest.raises(ValueError, match=r"features has shape \(20, 6\) and labels \(3,\)"):
        FeatureGaussians.fit(x, labels[:3])


def test_percentiles_are_shares_of_the_reference():
    np.testing.assert_allclose(percentiles(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.5, 2.5, 9.0])), [0, 0.5, 1])


@pytest.mark.parametrize("classes", [1, 3])
def test_novelty_is_the_sum_of_the_standardised_distances_of_all_layers(classes):
    (x, labels), (held_out, _), (new, _) = features(200), features(100, seed=1), features(20, seed=2)
    labels = np.minimum(labels, classes - 1)

    def layers(part):
        return {"first": part[:, :2], "second": part[:, 2:], "features": part @ np.diag([1, 2, 3, 4, 5, 6])}

    found = LayerGaussians.fit(layers(x), labels, layers(held_out)).scores(layers(new))
    total = np.zeros(20)
    for name, own in layers(x).items():
        gaussians = FeatureGaussians.fit(own, labels)
        scaler = StandardScaler().fit(gaussians.mahalanobis(layers(held_out)[name])[:, None])
        total += scaler.transform(gaussians.mahalanobis(layers(new)[name])[:, None])[:, 0]
    np.testing.assert_allclose(found["novelty"], total, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found["mahalanobis"], gaussians.mahalanobis(layers(new)["features"]), rtol=1e-3)
    assert ("relative_mahalanobis" in found) == (classes > 1)
