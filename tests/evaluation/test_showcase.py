"""Words about the uncertainty of a classifier, on results whose measures are known."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import roc_auc_score

from hf_bam.evaluation import showcase
from hf_bam.evaluation.comparison import Comparison
from hf_bam.evaluation.outcomes import Outcome, measure

NAMES = ["negative", "positive"]


def result(prediction, entropy, labels, novelty=0.0, in_distribution=True, answered=None):
    return SimpleNamespace(
        prediction=prediction,
        label=NAMES[prediction],
        probability=0.9,
        std=0.05,
        entropy=entropy,
        prediction_set=labels,
        novelty=SimpleNamespace(score=novelty),
        in_distribution=in_distribution,
        answered=answered,
    )


def comparison(**probabilities):
    """Return a comparison of methods by the probability of the true class, (B,), which is always class 1."""
    outcomes, table = {}, []
    for name, p in probabilities.items():
        samples = np.stack([1 - p, p], axis=-1)[None]
        outcomes[name] = Outcome(samples, 1.0, np.ones(len(p)))
        table.append({"method": name, **measure(np.ones(len(p), dtype=int), samples), "passes": 1.0})
    number = len(p)
    return Comparison(outcomes, np.ones(number, dtype=int), ["text"] * number, NAMES, table)


def test_intervals_of_the_table_are_those_of_the_bootstrap():
    p = np.random.default_rng(0).beta(3, 1, size=400)
    (row,) = showcase.method_rows(comparison(plain=p))
    for name, values in {"accuracy": p > 0.5, "nll": -np.log(p)}.items():
        value, half = map(float, row[name].split(" ± "))
        interval = bootstrap([values], np.mean, method="percentile", random_state=0).confidence_interval
        assert value == pytest.approx(values.mean(), abs=6e-4)
        assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.1)


def test_methods_that_are_ahead_are_named():
    p = np.random.default_rng(0).uniform(0.55, 0.95, size=300)
    worse = showcase.against(comparison(plain=p, other=p - 0.1), "plain")
    gap = np.log(p).mean() - np.log(p - 0.1).mean()
    assert worse.startswith(f"plain is ahead of other in NLL by {gap:.3f}.\nplain is ahead of other in error rate")
    assert showcase.against(comparison(plain=p, other=p + 0.04), "plain").startswith("other is ahead of plain in NLL")
    mixed = np.where(np.arange(300) % 2, p + 0.01, p - 0.01)
    assert showcase.against(comparison(plain=p, other=mixed), "plain").startswith("All differences to plain")


def test_prediction_sets_by_size():
    results = [result(1, 0.1, ["positive"]), result(0, 0.2, ["negative"]), result(1, 0.6, NAMES), result(1, 0.1, [])]
    text = showcase.about_sets((["a", "b", "c " * 50, "d"], [1, 1, 0, 1]), results, NAMES)
    assert "they contain that of 50.0 %" in text
    lines = text.splitlines()[2:]
    assert lines[0] == "  0 labels: 25 %, e.g. none: d"
    assert lines[1] == "  1 label: 50 %, e.g. positive: a"
    assert lines[2].startswith("  2 labels: 25 %, e.g. negative, positive: c c")
    assert lines[2].endswith("…")


def test_novelty_of_other_domains():
    random = np.random.default_rng(0)
    known = [result(1, e, NAMES, n, n < 2) for e, n in random.normal(size=(50, 2))]
    other = [result(1, e, NAMES, n, n < 2) for e, n in random.normal([0, 3], size=(30, 2))]
    header, row = showcase.about_novelty(known, {"news": ([f"text {i}" for i in range(30)], other)}).splitlines()[2:]
    truth = [0] * 50 + [1] * 30
    novelty, entropy = ([f(one) for one in known + other] for f in (lambda r: r.novelty.score, lambda r: r.entropy))
    assert header.split() == ["domain", "flagged", "novelty_auroc", "entropy_auroc", "most", "novel"]
    most = int(np.argmax(novelty[50:]))
    expected = [np.mean(np.array(novelty[50:]) >= 2), roc_auc_score(truth, novelty), roc_auc_score(truth, entropy)]
    assert row.split() == ["news", *(f"{value:.3f}" for value in expected), "text", str(most)]


def test_errors_of_answered_inputs():
    entropy = np.arange(10) / 10
    results = [result(int(i < 8), entropy[i], NAMES, answered=bool(i < 5)) for i in range(10)]
    text = showcase.about_abstention([1] * 10, results)
    assert [line.split() for line in text.splitlines()[3:5]] == [["1.000", "0.200"], ["0.800", "0.000"]]
    assert text.endswith("The fitted threshold answers 50 %, with an error rate of 0.000.")
