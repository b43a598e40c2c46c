import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from hf_bam.evaluation.metrics import accuracy, f1, mcc

from .cases import random_samples

# Two draws of four inputs; the means of class 1 are 0.4, 0.7, 0.8, 0.9, so the predictions are 0, 1, 1, 1.
DRAWS = [
    [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9]],
    [[0.3, 0.7], [0.4, 0.6], [0.0, 1.0], [0.1, 0.9]],
]


def test_by_hand():
    # Labels 0, 0, 1, 1: TP 2, FP 1, FN 0, TN 1.
    labels = [0, 0, 1, 1]
    assert accuracy(labels, DRAWS) == 3 / 4
    assert f1(labels, DRAWS) == pytest.approx(4 / 5)
    assert f1(labels, DRAWS, "macro") == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert f1(labels, DRAWS, "micro") == pytest.approx(3 / 4)
    assert mcc(labels, DRAWS) == pytest.approx((2 * 1 - 1 * 0) / (3 * 2 * 2 * 1) ** 0.5)


def test_it_is_the_mean_that_predicts_and_not_the_majority():
    draws = [[[0.51, 0.49]], [[0.51, 0.49]], [[0.1, 0.9]]]
    assert accuracy([1], draws) == 1.0
    assert accuracy([0], draws) == 0.0


@pytest.mark.parametrize("classes", [2, 5])
def test_against_scikit_learn(classes):
    samples, labels = random_samples(classes=classes)
    guess = samples.mean(axis=0).argmax(axis=-1)
    assert accuracy(labels, samples) == pytest.approx(accuracy_score(labels, guess))
    assert mcc(labels, samples) == pytest.approx(matthews_corrcoef(labels, guess))
    for average in ("binary", "macro", "micro") if classes == 2 else ("macro", "micro"):
        assert f1(labels, samples, average) == pytest.approx(f1_score(labels, guess, average=average))


@pytest.mark.parametrize("labels", [[0, 0], [1, 1], [0, 1]])
def test_a_single_predicted_class_gives_zero_without_a_warning(labels):
    draws = [[0.9, 0.1], [0.8, 0.2]]
    assert mcc(labels, draws) == 0.0
    assert f1(labels, draws) == 0.0


def test_a_single_true_class_gives_no_correlation():
    assert mcc([1, 1, 1, 1], DRAWS) == 0.0


def test_f1_errors():
    with pytest.raises(ValueError, match="average='weighted' is not known; choose one of 'binary', 'macro', 'micro'"):
        f1([0, 0, 1, 1], DRAWS, "weighted")
    with pytest.raises(ValueError, match="average='binary' needs two classes and predictions has 3; choose 'macro'"):
        f1([2], [[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="average='binary' needs two classes and predictions has 4; choose 'macro'"):
        f1([2, 0], [3, 0])


@pytest.mark.parametrize("classes", [2, 5])
def test_predicted_classes_against_scikit_learn(classes):
    samples, labels = random_samples(classes=classes, seed=1)
    guess = samples[0].argmax(axis=-1)
    assert accuracy(labels, guess) == pytest.approx(accuracy_score(labels, guess))
    assert mcc(labels, guess) == pytest.approx(matthews_corrcoef(labels, guess))
    for average in ("binary", "macro", "micro") if classes == 2 else ("macro", "micro"):
        assert f1(labels, guess, average) == pytest.approx(f1_score(labels, guess, average=average))
