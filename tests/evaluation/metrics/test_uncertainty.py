import math

import numpy as np
import pytest
from scipy.stats import entropy

from hf_bam.evaluation.metrics import (
    expected_entropy,
    mutual_information,
    predictive_entropy,
    top_probability,
    top_std,
)

from .cases import random_samples

ALL = [predictive_entropy, expected_entropy, mutual_information, top_probability, top_std]


def values(samples):
    return [function(samples).item() for function in ALL]


def test_total_disagreement_is_all_epistemic():
    samples = [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert values(samples) == pytest.approx([math.log(2), 0, math.log(2), 0.5, math.sqrt(0.5)])


def test_agreement_on_a_fair_coin_is_all_aleatoric():
    samples = [[[0.5, 0.5]], [[0.5, 0.5]]]
    assert values(samples) == pytest.approx([math.log(2), math.log(2), 0, 0.5, 0])


def test_agreement_on_one_class_is_no_uncertainty():
    assert values([[[0.0, 1.0]], [[0.0, 1.0]]]) == [0, 0, 0, 1, 0]


def test_half_of_each():
    # One sample is certain, one is a fair coin: the mean is (3/4, 1/4).
    samples = [[[1.0, 0.0]], [[0.5, 0.5]]]
    total = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    aleatoric = math.log(2) / 2
    assert values(samples) == pytest.approx([total, aleatoric, total - aleatoric, 0.75, 0.5 / math.sqrt(2)])


def test_against_scipy():
    samples, _ = random_samples(classes=5)
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(predictive_entropy(samples), entropy(mean, axis=-1))
    np.testing.assert_allclose(expected_entropy(samples), entropy(samples, axis=-1).mean(axis=0))
    # Mutual information is also the mean divergence of the samples from their mean.
    np.testing.assert_allclose(mutual_information(samples), entropy(samples, mean[None], axis=-1).mean(axis=0))


def test_top_class_is_the_one_of_the_mean():
    samples, _ = random_samples(classes=5)
    for b, top in enumerate(samples.mean(axis=0).argmax(axis=-1)):
        assert top_probability(samples)[b] == pytest.approx(np.mean(samples[:, b, top]))
        assert top_std(samples)[b] == pytest.approx(np.std(samples[:, b, top], ddof=1))


def test_one_sample_has_no_epistemic_uncertainty():
    samples, _ = random_samples(count=1)
    np.testing.assert_array_equal(mutual_information(samples), np.zeros(60))
    np.testing.assert_array_equal(top_std(samples), np.zeros(60))
    np.testing.assert_array_equal(predictive_entropy(samples), expected_entropy(samples))


def test_mutual_information_is_never_negative():
    samples = np.repeat(random_samples(count=1, inputs=2000)[0], 3, axis=0)
    information = mutual_information(samples)
    assert (information >= 0).all()
    np.testing.assert_allclose(information, 0, atol=1e-14)


@pytest.mark.parametrize("function", ALL)
def test_middle_dimensions_are_kept(function):
    samples, _ = random_samples(inputs=60)
    tokens = samples.reshape(7, 5, 4, 3, 3)
    assert function(tokens).shape == (5, 4, 3)
    np.testing.assert_array_equal(function(tokens).ravel(), function(samples))
