"""Temperature scaling, against scipy."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score

from hf_bam.evaluation.comparison import Comparison, Outcome
from hf_bam.evaluation.temperature import cross_fit, folds, with_temperatures


@pytest.fixture(scope="module")
def comparison():
    """Return one overconfident method: logits five times too large."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 60)
    logits = 5 * (np.eye(3)[labels] + random.normal(size=(60, 3)))
    known = Outcome(softmax(logits, axis=-1)[None], 2.0, np.ones(60))
    ood = Outcome(softmax(random.normal(size=(30, 3)), axis=-1)[None], 2.0, np.ones(30))
    row = {"method": "plain", "accuracy": 0.5, "ood_auroc": 0.5, "passes": 1.0, "seconds": 2.0}
    return Comparison({"plain": known}, labels, ["x"] * 60, ["a", "b", "c"], [row], {"plain": ood})


def fitted(log_p, labels):
    """Return the temperature of the lowest negative log-likelihood, by scipy."""

    def loss(t):
        return -log_softmax(log_p / t, axis=-1)[np.arange(len(labels)), labels].mean()

    return minimize_scalar(loss, bounds=(0.1, 100), method="bounded").x


def half_of(rows):
    """Return which rows are in the first half, from the rows that a fold measures."""
    first, second = (
        fold.rows for fold in folds(np.zeros(rows, dtype=int), np.ones((1, rows, 1)), np.zeros(rows), None)
    )
    assert np.array_equal(first, ~second)
    assert first.sum() == (rows + 1) // 2
    return first


def test_temperatures_are_fitted_on_the_other_half(comparison):
    both = with_temperatures(comparison)
    assert list(both.outcomes) == ["plain", "plain + temperature"]
    log_p, labels, first = np.log(comparison.outcomes["plain"].samples[0]), comparison.labels, half_of(60)
    scaled = both.outcomes["plain + temperature"].samples[0]
    for half in (first, ~first):
        expected = softmax(log_p[half] / fitted(log_p[~half], labels[~half]), axis=-1)
        np.testing.assert_allclose(scaled[half], expected, atol=1e-3)
    row = both.table[1]
    assert row["method"] == "plain + temperature"
    assert row["accuracy"] == pytest.approx((log_p.argmax(-1) == labels).mean())  # predictions do not change
    assert row["nll"] == pytest.approx(-np.log(scaled[np.arange(60), labels]).mean())
    assert row["nll"] < -log_p[np.arange(60), labels].mean()


def test_out_of_distribution_inputs_get_a_temperature_too(comparison):
    both = with_temperatures(comparison)
    log_p = np.log(comparison.outcomes["plain"].samples[0])
    ood = np.log(comparison.ood["plain"].samples[0]) / fitted(log_p, comparison.labels)
    entropies = [entropy(p, axis=-1) for p in (both.outcomes["plain + temperature"].samples[0], softmax(ood, axis=-1))]
    expected = roc_auc_score([0] * 60 + [1] * 30, np.concatenate(entropies))
    assert both.table[1]["ood_auroc"] == pytest.approx(expected, abs=1e-3)
    assert both.table[1]["ood_auroc"] != comparison.table[0]["ood_auroc"]


def test_given_temperatures_are_applied(comparison):
    both = with_temperatures(comparison, {"plain": 3.0})
    for own, key in ((both.outcomes, "outcomes"), (both.ood, "ood")):
        log_p = np.log(getattr(comparison, key)["plain"].samples)
        np.testing.assert_allclose(own["plain + temperature"].samples, softmax(log_p / 3, axis=-1), atol=1e-9)


def calibrated(rows, seed):
    """Return labels that are drawn from the probabilities of a method, and its outcome."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(4), size=rows)
    labels = (p.cumsum(axis=1) > random.random((rows, 1))).argmax(axis=1)
    return labels, Outcome(p[None], 1.0, np.ones(rows))


def test_held_out_rows_fit_the_temperature(comparison):
    labels, held_out = calibrated(200, 1)
    other = Comparison({"plain": held_out}, labels, ["x"] * 200, ["a", "b", "c", "d"], [])
    truth, outcome = calibrated(100, 2)
    found = with_temperatures(
        Comparison({"plain": outcome}, truth, ["x"] * 100, other.label_names, [{"method": "plain"}], None, other)
    )
    log_p = np.log(held_out.samples[0])
    expected = softmax(np.log(outcome.samples[0]) / fitted(log_p, labels), axis=-1)
    np.testing.assert_allclose(found.outcomes["plain + temperature"].samples[0], expected, atol=1e-3)
    assert found.table[1]["set_coverage"] == pytest.approx(0.9, abs=0.1)


@pytest.mark.parametrize("temperature", [1.0, None])
@pytest.mark.parametrize("separate", [False, True])
def test_sets_have_the_coverage_that_is_asked_for(temperature, separate):
    """Means over 40 data sets; the standard error of a mean is at most 0.006."""
    coverage = []
    for seed in range(40):
        labels, outcome = calibrated(200, 2 * seed)
        other, held_out = calibrated(100, 2 * seed + 1)
        found = cross_fit(labels, outcome, 0.2, (other, held_out.samples) if separate else None, temperature)
        coverage.append(found.set_measures(labels)["set_coverage"])
        assert found.sets[np.arange(200), labels].mean() == coverage[-1]
    assert np.mean(coverage) == pytest.approx(0.8, abs=0.02)
    assert found.set_measures(labels)["set_size"] == found.sets.sum() / 200


def test_sets_of_a_half_do_not_depend_on_its_labels():
    labels, outcome = calibrated(100, 0)
    half = half_of(100)
    changed = np.where(half, (labels + 1) % 4, labels)
    one, other = (cross_fit(own, outcome, 0.2, temperature=1.0).sets for own in (labels, changed))
    assert np.array_equal(one[half], other[half])
    assert not np.array_equal(one[~half], other[~half])


def test_rows_in_the_order_of_their_labels():
    """Whatever the order, both halves have all labels."""
    for labels in (np.arange(100) % 2, np.arange(100) // 50):
        assert 0.3 < labels[half_of(100)].mean() < 0.7


def test_too_few_rows_have_no_sets():
    for rows, known in ((16, False), (18, True)):  # alpha = 0.1 needs 9 rows
        labels, outcome = calibrated(rows, 0)
        found = cross_fit(labels, outcome, 0.1)
        assert (found.sets is not None) == known
        assert np.isnan(found.set_measures(labels)["set_size"]) == (not known)
