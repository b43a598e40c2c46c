"""Temperature scaling, against scipy."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score

from hf_bam.evaluation.comparison import Comparison, Outcome
from hf_bam.evaluation.temperature import with_temperatures


@pytest.fixture(scope="module")
def comparison():
    """One method that is too sure of itself: logits five times too large."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 60)
    logits = 5 * (np.eye(3)[labels] + random.normal(size=(60, 3)))
    known = Outcome(softmax(logits, axis=-1)[None], 2.0, np.ones(60))
    strange = Outcome(softmax(random.normal(size=(30, 3)), axis=-1)[None], 2.0, np.ones(30))
    row = {"method": "plain", "accuracy": 0.5, "ood_auroc": 0.5, "draws": 1.0, "seconds": 2.0}
    return Comparison({"plain": known}, labels, ["x"] * 60, ["a", "b", "c"], [row], {"plain": strange})


def fitted(log_p, labels):
    """The best temperature, by scipy."""

    def loss(t):
        return -log_softmax(log_p / t, axis=-1)[np.arange(len(labels)), labels].mean()

    return minimize_scalar(loss, bounds=(0.1, 100), method="bounded").x


def test_temperatures_are_fitted_on_the_other_half(comparison):
    both = with_temperatures(comparison)
    assert list(both.outcomes) == ["plain", "plain + temperature"]
    log_p, labels, even = np.log(comparison.outcomes["plain"].samples[0]), comparison.labels, np.arange(60) % 2 == 0
    scaled = both.outcomes["plain + temperature"].samples[0]
    for half in (even, ~even):
        expected = softmax(log_p[half] / fitted(log_p[~half], labels[~half]), axis=-1)
        np.testing.assert_allclose(scaled[half], expected, atol=1e-3)
    row = both.table[1]
    assert row["method"] == "plain + temperature"
    assert row["accuracy"] == pytest.approx((log_p.argmax(-1) == labels).mean())  # answers stay as they are
    assert row["nll"] == pytest.approx(-np.log(scaled[np.arange(60), labels]).mean())
    assert row["nll"] < -log_p[np.arange(60), labels].mean()


def test_strange_inputs_get_a_temperature_as_well(comparison):
    both = with_temperatures(comparison)
    log_p = np.log(comparison.outcomes["plain"].samples[0])
    strange = np.log(comparison.ood["plain"].samples[0]) / fitted(log_p, comparison.labels)
    entropies = [
        entropy(p, axis=-1) for p in (both.outcomes["plain + temperature"].samples[0], softmax(strange, axis=-1))
    ]
    expected = roc_auc_score([0] * 60 + [1] * 30, np.concatenate(entropies))
    assert both.table[1]["ood_auroc"] == pytest.approx(expected, abs=1e-3)
    assert both.table[1]["ood_auroc"] != comparison.table[0]["ood_auroc"]


def test_temperatures_that_were_found_elsewhere(comparison):
    both = with_temperatures(comparison, {"plain": 3.0})
    for own, key in ((both.outcomes, "outcomes"), (both.ood, "ood")):
        log_p = np.log(getattr(comparison, key)["plain"].samples)
        np.testing.assert_allclose(own["plain + temperature"].samples, softmax(log_p / 3, axis=-1), atol=1e-9)
