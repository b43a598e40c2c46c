import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from hf_bam.evaluation.metrics import accuracy, f1, mcc

from .cases import random_samples

# Two samples of four inputs; the means of class 1 are 0.4, 0.7, 0.8, 0.9, so the predictions are 0, 1, 1, 1.
SAMPLES = [
    [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9]],
    [[0.3, 0.7], [0.4, 0.6], [0.0, 1.0], [0.1, 0.9]],
]


def test_by_hand():
    # Labels 0, 0, 1, 1: TP 2, FP 1, FN 0, TN 1.
    labels = [0, 0, 1, 1]
    assert accuracy(labels, SAMPLES) == 3 / 4
    assert f1(labels, SAMPLES) == pytest.approx(4 / 5)
    assert f1(labels, SAMPLES, "macro") == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert f1(labels, SAMPLES, "micro") == pytest.approx(3 / 4)
    assert mcc(labels, SAMPLES) == pytest.approx((2 * 1 - 1 * 0) / (3 * 2 * 2 * 1) ** 0.5)


def test_the_prediction_is_that_of_the_mean_and_not_of_the_majority():
    samples = [[[0.51, 0.49]], [[0.51, 0.49]], [[0.1, 0.9]]]
    assert accuracy([1], samples) == 1.0
    assert accuracy([0], samples) == 0.0


@pytest.mark.parametrize("classes", [2, 5])
def test_against_scikit_learn(classes):
    samples, labels = random_samples(classes=classes)
    predictions = samples.mean(axis=0).argmax(axis=-1)
    assert accuracy(labels, samples) == pytest.approx(accuracy_score(labels, predictions))
    assert mcc(labels, samples) == pytest.approx(matthews_corrcoef(labels, predictions))
    for average in ("binary", "macro", "micro") if classes == 2 else ("macro", "micro"):
        assert f1(labels, samples, average) == pytest.approx(f1_score(labels, predictions, average=average))


@pytest.mark.parametrize("labels", [[0, 0], [1, 1], [0, 1]])
def test_a_single_predicted_class_gives_zero_without_a_warning(labels):
    samples = [[0.9, 0.1], [0.8, 0.2]]
    assert mcc(labels, samples) == 0.0
    assert f1(labels, samples) == 0.0


def test_a_single_true_class_gives_no_correlation():
    assert mcc([1, 1, 1, 1], SAMPLES) == 0.0


def test_f1_errors():
    with pytest.raises(ValueError, match="average='weighted' is not known; choose one of 'binary', 'macro', 'micro'"):
        f1([0, 0, 1, 1], SAMPLES, "weighted")
    with pytest.raises(ValueError, match="average='binary' needs two classes and predictions has 3; choose 'macro'"):
        f1([2], [[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="average='binary' needs two classes and predictions has 4; choose 'macro'"):
        f1([2, 0], [3, 0])


@pytest.mark.parametrize("classes", [2, 5])
def test_predicted_predictionsagainst_scikit_learn(classes):
    samples, labels = random_samples(classes=classes, seed=1)
    predictions = samples[0].argmax(axis=-1)
    assert accuracy(labels, predictions) == pytest.approx(accuracy_score(labels, predictions))
    assert mcc(labels, predictions) == pytest.approx(matthews_corrcoef(labels, predictions))
    for average in ("binary", "macro", "micro") if classes == 2 else ("macro", "micro"):
        assert f1(labels, predictions, average) == pytest.approx(f1_score(labels, predictions, average=average))
