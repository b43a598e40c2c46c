import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from hf_bam.evaluation.metrics import error_aupr, error_auroc, fpr95, ood_auroc


def random_scores(seed=0, decimals=8):
    rng = np.random.default_rng(seed)
    return rng.normal(size=80).round(decimals), (rng.normal(size=50) + 1).round(decimals)


def test_error_detection_by_hand():
    # Of 2 x 2 pairs of an incorrect and a correct one, three are in order. Precision at the errors: 1/1 and 2/3.
    scores, errors = [4.0, 3.0, 2.0, 1.0], [True, False, True, False]
    assert error_auroc(errors, scores) == pytest.approx(3 / 4)
    assert error_aupr(errors, scores) == pytest.approx((1 + 2 / 3) / 2)


def test_constant_scores_are_at_chance():
    assert error_auroc([1, 0, 0, 0], [1, 1, 1, 1]) == 0.5
    assert error_aupr([1, 0, 0, 0], [1, 1, 1, 1]) == pytest.approx(1 / 4)


@pytest.mark.parametrize("decimals", [8, 0])
def test_against_scikit_learn(decimals):
    inside, outside = random_scores(decimals=decimals)
    scores, is_outside = np.r_[inside, outside], np.r_[np.zeros(80), np.ones(50)]
    auroc = roc_auc_score(is_outside, scores)
    assert error_auroc(is_outside, scores) == pytest.approx(auroc)
    assert ood_auroc(inside, outside) == pytest.approx(auroc)
    assert error_aupr(is_outside, scores) == pytest.approx(average_precision_score(is_outside, scores))
    fpr, tpr, _ = roc_curve(is_outside, scores, drop_intermediate=False)
    assert fpr95(inside, outside) == pytest.approx(fpr[tpr >= 0.95][0])


def test_ood_by_hand():
    assert ood_auroc([0, 1], [2, 3]) == 1.0
    assert ood_auroc([2, 3], [0, 1]) == 0.0
    assert ood_auroc([1], [1]) == 0.5
    assert ood_auroc([0, 2, 4], [3]) == pytest.approx(2 / 3)


def test_fpr95_by_hand():
    # 19 of 20 must be flagged, so the threshold is the second lowest, 2; of 1.5, 2 and 2.5 two reach it.
    outside = list(range(1, 21))
    assert fpr95([0.5, 1.5, 2, 2.5], outside) == pytest.approx(2 / 4)
    # Of 10, 95 % means all of them.
    assert fpr95([0.5, 1.5, 2, 2.5], outside[:10]) == pytest.approx(3 / 4)
    assert fpr95([0, 1], [2, 3]) == 0.0
    assert fpr95([2, 3], [0, 1]) == 1.0


@pytest.mark.parametrize("function", [error_auroc, error_aupr])
def test_errors(function):
    with pytest.raises(ValueError, match="errors has only one class: all 2 predictions are correct"):
        function([False, False], [1, 2])
    with pytest.raises(ValueError, match="errors has only one class: all 2 predictions are incorrect"):
        function([True, True], [1, 2])
    with pytest.raises(ValueError, match=r"errors has the value 0\.5; expected booleans"):
        function([0.5, 1], [1, 2])
