"""Bootstrap of the measures of a report, and which values are best beyond noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import roc_auc_score

from hf_bam.evaluation import metrics
from hf_bam.evaluation.comparison import Comparison
from hf_bam.evaluation.findings import Findings, Judged
from hf_bam.evaluation.outcomes import Outcome, measure
from hf_bam.evaluation.report.columns import best_rows
from hf_bam.evaluation.report.resampling import draws, interval, of_classes, of_findings

ROWS, OTHERS = np.arange(80), np.arange(25)


def outcome(random, inputs, sharpness):
    samples = random.dirichlet(np.ones(3), size=(4, inputs)) ** sharpness
    sets = random.random((inputs, 3)) < 0.6
    return Outcome(samples / samples.sum(axis=-1, keepdims=True), 1.0, np.full(inputs, 4), random.random(inputs), sets)


@pytest.fixture(scope="module")
def comparison():
    random = np.random.default_rng(0)
    known = {"one": outcome(random, 80, 1.0), "two": outcome(random, 80, 2.0)}
    unknown = {name: outcome(random, 25, 0.5) for name in known}
    return Comparison(known, random.integers(3, size=80), ["text"] * 80, ["a", "b", "c"], [], unknown)


def test_measures_of_all_rows_are_those_of_the_table(comparison):
    """The measures that are resampled agree with their other implementations, by scikit-learn among others."""
    for name, own in of_classes(comparison).items():
        known, unknown = comparison.outcomes[name], comparison.ood[name]
        expected = measure(comparison.labels, known.samples) | known.set_measures(comparison.labels)
        expected["ood_auroc"] = metrics.ood_auroc(known.entropy, unknown.entropy)
        expected["novelty_auroc"] = metrics.ood_auroc(known.novelty, unknown.novelty)
        assert own.keys() == expected.keys() - {"error_aupr"}
        assert {key: one(ROWS, OTHERS) for key, one in own.items()} == pytest.approx(
            {key: expected[key] for key in own}
        )
        wrong = known.mean.argmax(axis=-1) != comparison.labels
        assert own["error_auroc"](ROWS, OTHERS) == pytest.approx(roc_auc_score(wrong, known.entropy))


def test_intervals_are_those_of_scipy(comparison):
    found = draws(comparison)
    right = comparison.outcomes["one"].mean.argmax(axis=-1) == comparison.labels
    expected = bootstrap((right.astype(float),), np.mean, method="percentile", rng=0).confidence_interval
    assert interval(found["one"]["accuracy"]) == pytest.approx(expected, abs=0.03)


def test_resamples_are_the_same_for_all_methods(comparison):
    one = comparison.outcomes["one"]
    same = replace(comparison, outcomes={"a": one, "b": one}, ood=None)
    found = draws(same)
    for name, values in found["a"].items():
        np.testing.assert_array_equal(values, found["b"][name])


def test_measures_of_numbers_and_texts():
    random = np.random.default_rng(1)
    targets = random.normal(size=80)
    value = targets + random.normal(size=80)
    ends = np.stack([value, value - 1, value + 1], axis=1)
    spread = random.random(80)
    own = Judged(["x"] * 80, ["y"] * 80, abs(value - targets), spread, np.full(80, 4), intervals=ends)
    (found,) = of_findings(Findings({"m": own}, ["t"] * 80, [], [], "absolute error", targets)).values()
    values = {name: one(ROWS, OTHERS) for name, one in found.items()}
    assert values["pearson"] == pytest.approx(np.corrcoef(targets, value)[0, 1])
    assert values["coverage_90"] == (abs(value - targets) <= 1).mean()
    assert values["error_spearman"] == pytest.approx(metrics.spearman(abs(value - targets), spread))
    assert values["loss"] == pytest.approx(abs(value - targets).mean())


def test_best_beyond_noise():
    """The best, and what cannot be told from it: all pairs are compared on the same resamples."""
    noise = np.random.default_rng(0).normal(size=300)
    drawn = [0.5 + noise, 0.5 + noise + 0.001, 0.9 + noise, 0.5 + noise[::-1]]
    values = [0.5, 0.501, 0.9, 0.5001]
    assert best_rows(values, drawn, lower=True) == [True, False, False, True]
    assert best_rows(values, drawn, lower=False) == [False, False, True, True]
    assert best_rows(values[::3], drawn[::3], lower=True) == [False, False]
    assert best_rows([0.5, 0.9], [drawn[0], None], lower=True) == [False, False]
