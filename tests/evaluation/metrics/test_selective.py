from itertools import permutations

import numpy as np
import pytest

from hf_bam.evaluation.metrics import aurc, e_aurc, risk_coverage

from .cases import random_samples


def test_by_hand():
    # Least uncertain first, the losses are 0, 1, 0, 1.
    coverage, risk = risk_coverage([0, 0, 1, 1], [0.3, 0.1, 0.4, 0.2])
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert aurc([0, 0, 1, 1], [0.3, 0.1, 0.4, 0.2]) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)
    # The best order is 0, 0, 1, 1 with the risks 0, 0, 1/3, 1/2.
    assert e_aurc([0, 0, 1, 1], [0.3, 0.1, 0.4, 0.2]) == pytest.approx(1 / 8)


def test_ties_share_their_loss():
    # The least uncertain input is correct; of the two tied ones one is incorrect.
    _, risk = risk_coverage([0, 1, 0], [1, 2, 2])
    assert risk == pytest.approx([0, 0.5 / 2, 1 / 3])


def test_ties_are_the_mean_over_their_orderings():
    losses = [0.0, 1.0, 0.3, 2.0]
    orderings = [np.cumsum(order) / np.arange(1, 5) for order in permutations(losses)]
    _, risk = risk_coverage(losses, [7, 7, 7, 7])
    np.testing.assert_allclose(risk, np.mean(orderings, axis=0))


def test_the_order_of_inputs_does_not_matter():
    rng = np.random.default_rng(0)
    scores, losses = rng.integers(5, size=100), rng.integers(2, size=100)
    expected = risk_coverage(losses, scores)
    for _ in range(5):
        shuffled = rng.permutation(100)
        np.testing.assert_allclose(risk_coverage(losses[shuffled], scores[shuffled]), expected)


def test_without_ties_it_is_the_running_mean():
    samples, _ = random_samples()
    scores, losses = samples[0, :, 0], samples[1, :, 0]
    coverage, risk = risk_coverage(losses, scores)
    order = np.argsort(scores)
    np.testing.assert_allclose(risk, [losses[order][:k].mean() for k in range(1, 61)])
    np.testing.assert_allclose(coverage, np.arange(1, 61) / 60)


def test_the_oracle_has_no_excess_and_its_opposite_the_most():
    losses = np.random.default_rng(0).random(50)
    assert e_aurc(losses, losses) == 0.0
    assert e_aurc(losses, np.exp(losses)) == 0.0
    assert e_aurc(losses, -losses) > e_aurc(losses, np.zeros(50)) > 0.01


def test_a_constant_score_has_a_constant_risk():
    assert aurc([0, 1, 1, 0], [1, 1, 1, 1]) == pytest.approx(0.5)


def test_without_errors_there_is_no_risk():
    assert aurc([False, False, False], [1, 2, 3]) == 0.0
    assert e_aurc([True, True, True], [1, 2, 3]) == 0.0


@pytest.mark.parametrize("count", range(2, 12))
def test_rounding_is_no_negative_excess(count):
    # The oracle sees a tie where the scores see none: the same risk by other sums, e.g. 1e-16 apart for 8 times 0.7.
    assert 0 <= e_aurc([0.7] * count, range(count)) < 1e-15
