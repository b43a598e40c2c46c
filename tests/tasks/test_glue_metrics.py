import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from hf_bam.tasks.glue_metrics import accuracy_f1, correlations, macro_f1, matthews, only_accuracy

ALL = [accuracy_f1, correlations, macro_f1, matthews, only_accuracy]
# true positives 3, false positives 1, false negatives 2, true negatives 2
LABELS, PREDICTIONS = [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 1, 0, 0]


def test_values_by_hand():
    assert only_accuracy(LABELS, PREDICTIONS) == {"accuracy": 5 / 8}
    assert accuracy_f1(LABELS, PREDICTIONS) == pytest.approx({"accuracy": 5 / 8, "f1": 6 / 9, "average": 31 / 48})
    assert matthews(LABELS, PREDICTIONS) == pytest.approx({"matthews": (3 * 2 - 1 * 2) / math.sqrt(4 * 5 * 3 * 4)})
    assert macro_f1(LABELS, PREDICTIONS)["macro_f1"] == pytest.approx((6 / 9 + 4 / 7) / 2)


def test_correlations_by_hand():
    # ranks 1 3 2 against 1 2 3: rho = 1 - 6 * 2 / (3 * 8)
    scores = correlations([0.0, 1.0, 5.0], [1.0, 3.0, 2.0])
    assert scores["spearman"] == pytest.approx(0.5)
    # centred: (-2, -1, 3) and (-1, 1, 0)
    assert scores["pearson"] == pytest.approx(1 / math.sqrt(14 * 2))
    assert scores["average"] == pytest.approx((scores["pearson"] + scores["spearman"]) / 2)


def test_against_sklearn_and_scipy():
    random = np.random.default_rng(0)
    labels, predictions = random.integers(0, 2, (2, 200))
    assert matthews(labels, predictions)["matthews"] == metrics.matthews_corrcoef(labels, predictions)
    assert accuracy_f1(labels, predictions)["f1"] == metrics.f1_score(labels, predictions)
    x, y = random.integers(0, 10, (2, 200)) / 2  # with ties
    assert correlations(x, y)["pearson"] == pytest.approx(stats.pearsonr(x, y)[0])
    assert correlations(x, y)["spearman"] == pytest.approx(stats.spearmanr(x, y)[0])


@pytest.mark.parametrize(
    ("labels", "predictions"), [([0, 1], [1, 1]), ([0, 1], [0, 0]), ([1, 1], [1, 1]), ([0, 0], [0, 1])]
)
def test_one_class_has_no_matthews_correlation(labels, predictions):
    assert matthews(labels, predictions) == {"matthews": 0.0}


def test_f1_without_positives_is_zero():
    assert accuracy_f1([0, 1], [0, 0]) == {"accuracy": 0.5, "f1": 0.0, "average": 0.25}
    assert accuracy_f1([0, 0], [0, 0]) == {"accuracy": 1.0, "f1": 0.0, "average": 0.5}
    assert accuracy_f1([1, 1], [1, 1]) == {"accuracy": 1.0, "f1": 1.0, "average": 1.0}


@pytest.mark.parametrize("predictions", [[2.5, 2.5, 2.5], [0.1 + 0.2] * 3])
def test_a_constant_correlates_with_nothing(predictions):
    assert correlations([1.0, 2.0, 4.0], predictions) == {"pearson": 0.0, "spearman": 0.0, "average": 0.0}
    assert correlations(predictions, [1.0, 2.0, 4.0]) == {"pearson": 0.0, "spearman": 0.0, "average": 0.0}
    assert correlations([1.0], [2.0])["average"] == 0.0


def test_a_near_constant_correlates_without_a_warning():
    nearly = np.array([2.5, np.nextafter(2.5, 3), np.nextafter(np.nextafter(2.5, 3), 3)])
    assert correlations([1.0, 2.0, 3.0], nearly)["spearman"] == pytest.approx(1)


@pytest.mark.parametrize("metric", ALL)
def test_nothing_and_unequal_lengths_are_errors(metric):
    with pytest.raises(ValueError, match="predictions is empty"):
        metric([], [])
    with pytest.raises(ValueError, match=r"(labels|targets) has 2 values and predictions has 1 inputs"):
        metric([0, 1], [0])
