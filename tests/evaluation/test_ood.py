"""Scores of out-of-distribution inputs, against scipy and by hand."""

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import entropy

from hf_bam.evaluation.novelty import FeatureGaussians
from hf_bam.evaluation.ood import class_scores, feature_scores, sample_scores


def test_scores_of_classes():
    logits = np.random.default_rng(0).normal(size=(4, 6, 5)) * 3
    probabilities = softmax(logits, axis=-1)
    found, mean = class_scores(logits, probabilities), probabilities.mean(axis=0)
    expected = {
        "msp": 1 - mean.max(axis=-1),
        "entropy": entropy(mean, axis=-1),
        "energy": -np.mean([logsumexp(sample, axis=-1) for sample in logits], axis=0),
        "max_logit": -np.mean([sample.max(axis=-1) for sample in logits], axis=0),
        "mutual_information": entropy(mean, axis=-1) - entropy(probabilities, axis=-1).mean(axis=0),
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12)


def test_a_single_sample_has_no_score_of_disagreement():
    logits = np.zeros((1, 2, 3))
    assert "mutual_information" not in class_scores(logits, softmax(logits, axis=-1))


def test_scores_of_features():
    """The whitened variance over samples is the trace of their covariance times the inverse of the Gaussian's."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(300, 4)) * [1, 2, 3, 4], np.arange(300) % 3
    gaussians = FeatureGaussians.fit(features, labels)
    samples = random.normal(size=(7, 5, 4))
    found = feature_scores(gaussians, samples[0]) | sample_scores(gaussians, samples)
    np.testing.assert_allclose(found["mahalanobis"], gaussians.mahalanobis(samples[0]))
    np.testing.assert_allclose(found["relative_mahalanobis"], gaussians.relative_mahalanobis(samples[0]))
    np.testing.assert_allclose(
        found["sampled_mahalanobis"], np.mean([gaussians.mahalanobis(sample) for sample in samples], axis=0)
    )
    precision = gaussians.whitening.T @ gaussians.whitening
    traces = [np.trace(np.cov(samples[:, index].T) @ precision) for index in range(5)]
    np.testing.assert_allclose(found["feature_spread"], traces)


def test_one_class_has_no_relative_distance():
    features = np.random.default_rng(0).normal(size=(50, 3))
    assert feature_scores(FeatureGaussians.fit(features, np.zeros(50, dtype=int)), features).keys() == {"mahalanobis"}
