"""Bootstrap of the measures of all methods over the same resampled rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from .. import metrics
from ..comparison import Comparison
from ..findings import Findings, Judged
from ..metrics.significance import THRESHOLD, pavpu_of_flags
from ..outcomes import Array
from ..recommendation import auroc, losses_of

RESAMPLES = 300
LEVEL = 0.95
Measure = Callable[[Array, Array], float]
"""A measure of the rows with these indices, (B,), and of the out-of-distribution rows with those."""
Draws = Mapping[str, Mapping[str, Array]]
"""Values of the resamples, (R,), by method and measure."""


def draws(found: Comparison | Findings) -> dict[str, dict[str, Array]]:
    """Return the values of all measures in resamples of the rows, which are the same for all methods."""
    measures = of_classes(found) if isinstance(found, Comparison) else of_findings(found)
    others = 0
    if isinstance(found, Comparison) and found.ood:
        others = next(iter(found.ood.values())).samples.shape[1]
    random, rows = np.random.default_rng(0), len(found.texts)
    chosen = [
        (random.integers(rows, size=rows), random.integers(max(1, others), size=others)) for _ in range(RESAMPLES)
    ]
    return {
        method: {name: np.array([measure(*indices) for indices in chosen]) for name, measure in own.items()}
        for method, own in measures.items()
    }


def of_classes(comparison: Comparison) -> dict[str, dict[str, Measure]]:
    """Return the measures of a comparison of classifiers by method and name."""
    return {name: dict(_of_outcome(comparison, name)) for name in comparison.outcomes}


def _of_outcome(comparison: Comparison, name: str) -> Iterator[tuple[str, Measure]]:
    outcome, labels = comparison.outcomes[name], comparison.labels
    nll, wrong = losses_of(labels, outcome)
    mean, entropy = outcome.mean, outcome.entropy
    one_hot = labels[:, None] == np.arange(mean.shape[-1])
    yield "accuracy", mean_of(1 - wrong)
    yield "nll", mean_of(nll)
    yield "brier", mean_of(((mean - one_hot) ** 2).sum(axis=-1))
    yield "ece", lambda rows, _: metrics.ece(labels[rows], mean[rows])
    yield "error_auroc", lambda rows, _: separation(entropy[rows], wrong[rows] > 0)
    yield "aurc", lambda rows, _: metrics.aurc(wrong[rows], entropy[rows])
    yield "epistemic", mean_of(metrics.mutual_information(outcome.samples))
    if len(outcome.samples) > 1:
        significant = metrics.top_two_p_values(outcome.samples) < THRESHOLD
        yield "pavpu", mean_of(pavpu_of_flags((1 - wrong)[:, None], significant[:, None]))
    if outcome.sets is not None:
        yield "set_coverage", mean_of(outcome.sets[np.arange(len(labels)), labels])
        yield "set_size", mean_of(outcome.sets.sum(axis=1))
    unknown = (comparison.ood or {}).get(name)
    if unknown is not None:
        other = unknown.entropy
        yield "ood_auroc", lambda rows, outside: auroc(entropy[rows], other[outside])
        if outcome.novelty is not None and unknown.novelty is not None:
            known, unusual = outcome.novelty, unknown.novelty
            yield "novelty_auroc", lambda rows, outside: auroc(known[rows], unusual[outside])


def of_findings(findings: Findings) -> dict[str, dict[str, Measure]]:
    """Return the measures of numbers, answers or texts by method and name, where rows are enough for them."""
    return {name: dict(_of_judged(own, findings.targets)) for name, own in findings.judged.items()}


def _of_judged(own: Judged, targets: Array | None) -> Iterator[tuple[str, Measure]]:
    losses, uncertainty = own.losses, own.uncertainty
    yield "loss", mean_of(losses)
    if targets is not None and own.intervals is not None:
        truth, value = targets, own.intervals[:, 0]
        yield "pearson", lambda rows, _: ranking(metrics.pearson, truth[rows], value[rows])
        yield "spearman", lambda rows, _: ranking(metrics.spearman, truth[rows], value[rows])
        yield "rmse", lambda rows, _: float(np.sqrt(np.mean((truth[rows] - value[rows]) ** 2)))
        if own.num_samples.max() > 1:
            covered = (truth >= own.intervals[:, 1]) & (truth <= own.intervals[:, 2])
            yield "coverage_90", mean_of(covered)
    else:
        yield "entropy", mean_of(uncertainty)
        yield "aurc", lambda rows, _: metrics.aurc(losses[rows], uncertainty[rows])
    if own.epistemic is not None:
        yield "epistemic", mean_of(own.epistemic)
    if uncertainty.std() > 0:
        yield "error_spearman", lambda rows, _: ranking(metrics.spearman, losses[rows], uncertainty[rows])


def mean_of(values: Array) -> Measure:
    """Return the measure that is the mean of values (B,)."""
    numbers = np.asarray(values, dtype=float)
    return lambda rows, _: float(numbers[rows].mean())


def separation(scores: Array, errors: Array) -> float:
    """Return the AUROC of scores (B,) for errors (B,); NaN where there are only errors or none."""
    return auroc(scores[~errors], scores[errors]) if 0 < errors.sum() < len(errors) else math.nan


def ranking(measure: Callable[[Array, Array], float], first: Array, scores: Array) -> float:
    """Return a measure of two columns; NaN where one of them is constant, which has no order."""
    return math.nan if len(np.unique(first)) < 2 else float(measure(first, scores))


def interval(values: Array) -> tuple[float, float] | None:
    """Return the percentile interval of resamples (R,); None if the measure is not defined in most of them."""
    known = values[np.isfinite(values)]
    if len(known) < len(values) / 2:
        return None
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
