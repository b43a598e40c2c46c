import math

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from hf_bam.evaluation.metrics import brier, ece, mce, nll

from .cases import random_samples


def binary(*confidences):
    """Return one sample that gives class 1 these probabilities."""
    return [[1 - p, p] for p in confidences]


def test_likelihood_and_brier_by_hand():
    # The mean of the two samples is (0.25, 0.75), not the mean of their losses.
    samples = [[[0.5, 0.5]], [[0.0, 1.0]]]
    assert nll([1], samples) == pytest.approx(-math.log(0.75))
    assert nll([0], samples) == pytest.approx(math.log(4))
    assert brier([1], samples) == pytest.approx(2 * 0.25**2)
    assert brier([1], [[1.0, 0.0]]) == 2.0


@pytest.mark.parametrize("classes", [2, 5])
def test_likelihood_and_brier_against_scikit_learn(classes):
    samples, labels = random_samples(classes=classes)
    mean = samples.mean(axis=0)
    assert nll(labels, samples) == pytest.approx(log_loss(labels, mean))
    assert brier(labels, samples) == pytest.approx(brier_score_loss(labels, mean, scale_by_half=False))


def test_the_loss_of_an_impossible_label_is_finite():
    assert nll([1], [[1.0, 0.0]]) == pytest.approx(87.336, abs=1e-3)
    assert nll([0], [[1.0, 0.0]]) == 0.0


def test_calibration_by_hand():
    # Bins of one half: only (0.5, 1] is used, with a confidence of 0.75 and an accuracy of 0.5.
    samples, labels = binary(0.6, 0.7, 0.8, 0.9), [1, 0, 1, 0]
    assert ece(labels, samples, bins=2) == pytest.approx(0.25)
    # Four bins by mass: each input alone, with gaps 0.4, 0.7, 0.2, 0.9; two: |0.5 - 0.65| and |0.5 - 0.85|.
    assert ece(labels, samples, bins=4, binning="mass") == pytest.approx((0.4 + 0.7 + 0.2 + 0.9) / 4)
    assert mce(labels, samples, bins=4, binning="mass") == pytest.approx(0.9)
    assert ece(labels, samples, bins=2, binning="mass") == pytest.approx((0.15 + 0.35) / 2)
    assert mce(labels, samples, bins=2, binning="mass") == pytest.approx(0.35)


def test_gaps_are_weighted_by_the_inputs_of_a_bin():
    # (0.5, 0.75]: three right at 0.6; (0.75, 1]: one wrong at 0.9.
    samples, labels = binary(0.6, 0.6, 0.6, 0.9), [1, 1, 1, 0]
    assert ece(labels, samples, bins=4) == pytest.approx(0.75 * 0.4 + 0.25 * 0.9)
    assert mce(labels, samples, bins=4) == pytest.approx(0.9)


def test_bins_include_their_upper_end():
    # 0.75 shares (0.5, 0.75] with 0.6: |1/2 - 0.675|; with [0.75, 1) the gaps would be 0.4 and 0.75.
    assert ece([1, 0], binary(0.6, 0.75), bins=4) == pytest.approx(0.175)


def test_a_confidence_of_one_is_in_the_last_bin():
    assert ece([1, 0], binary(1.0, 0.8), bins=2) == pytest.approx(0.4)
    assert ece([1, 1], binary(1.0, 1.0)) == 0.0


def test_classwise_by_hand():
    # Class 1: gap of (0, 0.5] at 0.2 with label 0, of (0.5, 1] at 0.7 with label 1; class 0 mirrors it: 0.3 and 0.2.
    samples, labels = binary(0.2, 0.7), [0, 1]
    assert ece(labels, samples, bins=2, classwise=True) == pytest.approx((0.2 + 0.3) / 2)
    assert mce(labels, samples, bins=2, classwise=True) == pytest.approx(0.3)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_against_torchmetrics(classes, bins):
    samples, labels = random_samples(inputs=500, classes=classes)
    mean, truth = torch.tensor(samples.mean(axis=0)), torch.tensor(labels)
    for function, norm in ((ece, "l1"), (mce, "max")):
        expected = multiclass_calibration_error(mean, truth, num_classes=classes, n_bins=bins, norm=norm).item()
        assert function(labels, samples, bins) == pytest.approx(expected, abs=1e-6)
        one_by_one = [
            binary_calibration_error(mean[:, c].clone(), (truth == c).long(), n_bins=bins, norm=norm).item()
            for c in range(classes)
        ]
        assert function(labels, samples, bins, classwise=True) == pytest.approx(np.mean(one_by_one), abs=1e-6)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("classwise", [False, True])
def test_the_order_of_inputs_does_not_matter(binning, classwise):
    samples, labels = random_samples(count=1)
    samples = np.stack([1 - samples[..., 0].round(1), samples[..., 0].round(1)], axis=-1)  # many ties
    labels = labels.clip(max=1)
    for function in (ece, mce):
        forth = function(labels, samples, 7, binning, classwise)
        back = function(labels[::-1], samples[:, ::-1], 7, binning, classwise)
        assert forth == pytest.approx(back)


@pytest.mark.parametrize("bins", [1, 3, 7, 10, 20, 60])
def test_mass_bins_have_equally_many_inputs(bins):
    # All predictions are incorrect: the largest gap of a bin is the mean confidence of the last one.
    samples, _ = random_samples(count=1, inputs=60, classes=2)
    mean = samples[0]
    last = np.sort(mean.max(axis=-1))[-(60 // bins) :]
    assert mce(mean.argmin(axis=-1), mean, bins, "mass") == pytest.approx(last.mean())


def test_more_mass_bins_than_inputs():
    assert ece([1, 1], binary(0.6, 0.7), bins=15, binning="mass") == pytest.approx(0.35)


@pytest.mark.parametrize("function", [ece, mce])
def test_errors(function):
    with pytest.raises(ValueError, match="binning='equal' is not known; choose one of 'width', 'mass'"):
        function([1], binary(0.5), binning="equal")
    for bins in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match=r"bins=.* is not valid; it must be a whole number, 1 or above"):
            function([1], binary(0.5), bins=bins)
