"""Recommendation of a method, on simulated outcomes of which the answer is known, and its intervals against scipy."""

import re

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import roc_auc_score

from hf_bam.evaluation.comparison import Comparison, Outcome
from hf_bam.evaluation.recommendation import auroc_gain, choose, gain, resampled_means

ROWS = 600


def outcome(signal, samples=1, seed=0, **changes):
    """Return probabilities of three classes, for labels 0, 1, 2, 0, ...; with a larger signal they are better."""
    random = np.random.default_rng(seed)
    logits = signal * np.eye(3)[np.arange(ROWS) % 3] + random.normal(size=(samples, ROWS, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return Outcome(p, 1.0, np.full(ROWS, samples), **changes)


def comparison(passes=None, ood=None, **outcomes):
    passes = passes or {name: len(own.samples) for name, own in outcomes.items()}
    table = [{"method": name, "passes": float(passes[name])} for name in outcomes]
    return Comparison(outcomes, np.arange(ROWS) % 3, ["x"] * ROWS, ["a", "b", "c"], table, ood)


def recommended(*args, **outcomes):
    return re.match(r"Use (\w+) \((\d+) pass", comparison(*args, **outcomes).recommendation).groups()


def test_a_better_costly_method_is_recommended():
    found = comparison(samples=outcome(2.0, 8), plain=outcome(1.0, seed=1))
    assert found.recommended == "samples"
    found = found.recommendation
    assert found.startswith("Use samples (8 passes): compared with plain (1 pass), its NLL is lower by 0.")
    assert "and its error rate is lower by 0." in found


def test_an_equal_costly_method_is_not():
    plain = outcome(1.0)
    same = Outcome(np.repeat(plain.samples, 8, axis=0), 9.0, np.full(ROWS, 8))
    assert recommended(samples=same, plain=plain) == ("plain", "1")
    # Another method with other errors, but as many of them.
    assert recommended(samples=outcome(1.0, seed=1), plain=plain, passes={"samples": 8, "plain": 1})[0] == "plain"


def test_false_recommendations_are_rare():
    """Of 100 data sets on which two costlier methods are equally good, about 2.5 % may recommend one of them."""
    wrong = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        wrong += choose(random.exponential(size=(3, 2, 80)))[0] != 0
    assert wrong <= 7


def test_a_costly_method_has_to_beat_a_cheaper_better_one():
    methods = {"plain": outcome(1.0), "scaled": outcome(2.0, seed=1), "samples": outcome(2.0, seed=2)}
    costs = {"plain": 1, "scaled": 1, "samples": 8}
    assert recommended(costs, **methods) == ("scaled", "1")
    found = comparison(costs, **methods).recommendation
    assert "compared with plain (1 pass)" in found
    assert "no further method is better beyond chance" in found
    assert recommended(costs, **{**methods, "samples": outcome(4.0, seed=2)}) == ("samples", "8")


def test_a_lower_nll_with_more_errors_is_not_better():
    """Method 1 has a lower first loss and a higher second one; method 2 has a lower first loss alone."""
    noise = np.random.default_rng(0).normal(size=(2, ROWS)) / 10
    zero, lower, higher = np.zeros(ROWS), noise[0] - 1, noise[1] + 1
    assert choose(np.array([[zero, zero], [lower, higher]]))[0] == 0
    assert choose(np.array([[zero, zero], [lower, higher], [lower, noise[1]]]))[:2] == (2, 0)


def test_one_method():
    assert comparison(plain=outcome(1.0)).recommended == "plain"
    assert comparison(plain=outcome(1.0)).recommendation == "Use plain (1 pass), the only method."


def test_sets_of_the_recommended_method():
    sets = np.zeros((ROWS, 3), dtype=bool)
    sets[: ROWS // 2] = True
    found = comparison(plain=outcome(1.0, sets=sets)).recommendation
    assert "contain the label of 50.0 % of the inputs and have 1.50 labels on average." in found


@pytest.mark.parametrize(
    ("shift", "words"),
    [(3.0, "use novelty: AUROC"), (-1.0, "use the entropy: AUROC"), (None, "either will do: AUROC")],
)
def test_novelty_of_out_of_distribution_inputs(shift, words):
    known, unknown = outcome(4.0), outcome(1.0, seed=1)
    random = np.random.default_rng(0)
    novelty = (random.normal(size=ROWS), random.normal(size=ROWS) + (shift or 0))
    if shift is None:  # the same ranks as the entropy
        novelty = known.entropy, unknown.entropy
    outcomes = [
        Outcome(own.samples, 1.0, own.num_samples, score) for own, score in zip((known, unknown), novelty, strict=True)
    ]
    found = comparison(plain=outcomes[0], ood={"plain": outcomes[1]}).recommendation
    assert words in found
    truth = [0] * ROWS + [1] * ROWS
    by_novelty = roc_auc_score(truth, np.concatenate(novelty))
    by_entropy = roc_auc_score(truth, np.concatenate([known.entropy, unknown.entropy]))
    assert f"AUROC {by_novelty:.3f} by novelty and {by_entropy:.3f} by entropy" in found
    without = comparison(plain=known, ood={"plain": unknown}).recommendation
    assert f"Its entropy separates the out-of-distribution inputs with an AUROC of {by_entropy:.3f}." in without


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_interval_is_that_of_scipy(level):
    values = np.random.default_rng(1).exponential(size=(50, 2))
    means = resampled_means(values, 20000)
    found = gain(0.0, means[:, 0] - means[:, 1], level)
    expected = bootstrap(
        (values[:, 0], values[:, 1]),
        lambda x, y, axis: (x - y).mean(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20000,
        confidence_level=level,
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02)


def test_the_interval_of_the_difference_of_two_aurocs():
    """Against the percentile interval of scipy's bootstrap of scikit-learn's AUROC."""
    random = np.random.default_rng(0)
    shared = random.normal(size=(140, 1))
    scores = shared + 0.5 * random.normal(size=(140, 2)) + (np.arange(140) >= 80)[:, None] * [1.5, 0.5]
    known, unknown = scores[:80], scores[80:]

    def difference(inside, outside):
        truth = [0] * len(inside) + [1] * len(outside)
        first, second = (roc_auc_score(truth, [*scores[inside, k], *scores[outside, k]]) for k in (0, 1))
        return first - second

    found = auroc_gain(known, unknown)
    rows = np.arange(80), np.arange(80, 140)
    assert found.value == pytest.approx(difference(*rows))
    interval = bootstrap(
        rows, difference, method="percentile", vectorized=False, n_resamples=300, rng=random
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx(interval, abs=0.03)
