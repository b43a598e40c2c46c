"""Recommendation of one of several compared methods, from paired tests on the same rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from .metrics.calibration import SMALLEST
from .outcomes import Array, Outcome

if TYPE_CHECKING:
    from .comparison import Comparison

LEVEL = 0.95
"""Confidence level of all intervals of a recommendation together."""
RESAMPLES = 5000
CHUNK = 1_000_000
"""Random numbers in memory at a time."""
ROUNDING = 1e-9
"""Differences below this are rounding."""
MEASURES = ("NLL", "error rate")


class Recommending(ABC):
    """Base of results of several methods, of which one is recommended."""

    @property
    def recommended(self) -> str:
        """Method to use on these data."""
        return self._recommended[0]

    @property
    def recommendation(self) -> str:
        """Method to use on these data, and why; see [`recommend`][hf_bam.evaluation.recommendation.recommend]."""
        return self._recommended[1]

    @cached_property
    def _recommended(self) -> tuple[str, str]:
        return self._recommend()

    @abstractmethod
    def _recommend(self) -> tuple[str, str]:
        """Return the name of the method, and the reason."""


@dataclass(frozen=True)
class Gain:
    """Improvement of a measure over another method, with its confidence interval; positive is better."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({100 * LEVEL:.0f} % interval {self.low:.4f} to {self.high:.4f})"


def recommend(comparison: Comparison) -> tuple[str, str]:
    """Return which method to use on the data of a comparison: its name, and some sentences with the reason.

    The cheapest method, by forward passes, is recommended unless another one is better. Methods are tried in the order
    of their passes, and at equal passes in the order of the table. A method replaces the one recommended so far if its
    NLL or its error rate is lower, and neither is higher, with an interval that excludes 0. The intervals are those of
    the paired bootstrap over the rows, percentiles of 5,000 resamples; their level of 95 % holds for all tests
    together (Bonferroni correction). Differences that the rows are too few to show do not count.

    With out-of-distribution inputs and fitted novelty, the AUROC of novelty is compared with that of the entropy of
    the recommended method, by the interval of DeLong et al. (1988).
    """
    passes = {str(row["method"]): float(row.get("passes", 1)) for row in comparison.table}
    names = sorted(comparison.outcomes, key=lambda name: passes.get(name, 1))
    losses = np.stack([losses_of(comparison.labels, comparison.outcomes[name]) for name in names])  # (M, 2, B)
    best, beaten, gains = choose(losses)
    labels = [(name, passes.get(name, 1)) for name in names]
    sentences = [reason(labels, best, beaten, gains, len(comparison.labels))]
    chosen = comparison.outcomes[names[best]]
    if comparison.ood and names[best] in comparison.ood:
        sentences.append(_about_ood(chosen, comparison.ood[names[best]]))
    measures = chosen.set_measures(comparison.labels)
    if chosen.sets is not None:
        sentences.append(
            f"Its prediction sets contain the label of {100 * measures['set_coverage']:.1f} % of the inputs and have "
            f"{measures['set_size']:.2f} labels on average."
        )
    return names[best], " ".join(sentences)


def choose(losses: Array) -> tuple[int, int, Sequence[Gain]]:
    """Return the recommended method, the one that it replaced last, and its gains over that.

    Args:
        losses: (M, K, B) losses of M methods, the cheapest first, by K measures on B rows.

    Returns:
        Two equal indices and no gains if the cheapest method is recommended.
    """
    methods, measures, rows = losses.shape
    means = resampled_means(losses.reshape(-1, rows).T).reshape(-1, methods, measures)
    level = 1 - (1 - LEVEL) / max(1, measures * (methods - 1))
    best, beaten, reasons = 0, 0, list[Gain]()
    for index in range(1, methods):
        gains = [
            gain(float((losses[best, k] - losses[index, k]).mean()), means[:, best, k] - means[:, index, k], level)
            for k in range(measures)
        ]
        if any(own.low > ROUNDING for own in gains) and not any(own.high < -ROUNDING for own in gains):
            best, beaten, reasons = index, best, gains
    return best, beaten, reasons


def resampled_means(values: Array, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return the means of bootstrap resamples of rows (B, K), (resamples, K)."""
    random, rows, found = np.random.default_rng(seed), len(values), list[Array]()
    size = max(1, CHUNK // rows)
    for start in range(0, resamples, size):
        number = min(size, resamples - start)
        drawn = random.integers(rows, size=(number, rows)) + rows * np.arange(number)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=number * rows).reshape(number, rows)
        found.append(counts @ values / rows)
    return np.concatenate(found)


def gain(value: float, resampled: Array, level: float = LEVEL) -> Gain:
    """Return a gain with the percentile interval of its resamples (R,)."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Gain(value, float(low), float(high))


def auroc_gain(known: Array, unknown: Array) -> Gain:
    """Return by how much the first of two scores separates better, by AUROC, with the interval of DeLong et al.

    Args:
        known: (N, 2) both scores of in-distribution inputs.
        unknown: (M, 2) both scores of out-of-distribution inputs.
    """
    first, second = (_placements(known[:, k], unknown[:, k]) for k in (0, 1))
    inside, outside = first[0] - second[0], first[1] - second[1]  # (N,) and (M,)
    variance = sum(part.var(ddof=1) / len(part) if len(part) > 1 else 0.0 for part in (inside, outside))
    half = float(norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance))
    value = float(inside.mean())
    return Gain(value, value - half, value + half)


def auroc(known: Array, unknown: Array) -> float:
    """Return the probability that a score of the second kind, (M,), is higher than one of the first, (N,)."""
    return float(_placements(known, unknown)[1].mean())


def _placements(known: Array, unknown: Array) -> tuple[Array, Array]:
    """Return the share of unknown scores above each known one, (N,), and of known scores below each unknown one."""

    def below(scores: Array, others: Array) -> Array:
        ordered = np.sort(others)
        ends = [np.searchsorted(ordered, scores, side=side) for side in ("left", "right")]
        return np.asarray((ends[0] + ends[1]) / (2 * len(ordered)))  # ties are one half

    return 1 - below(known, unknown), below(unknown, known)


def losses_of(labels: Array, outcome: Outcome) -> Array:
    """Return the negative log-likelihood and the error of each row, (2, B)."""
    mean = outcome.mean
    likelihood = mean[np.arange(len(labels)), labels].clip(min=SMALLEST)
    return np.stack([-np.log(likelihood), mean.argmax(axis=-1) != labels])


def reason(
    methods: Sequence[tuple[str, float]],
    best: int,
    beaten: int,
    gains: Sequence[Gain],
    rows: int,
    measures: Sequence[str] = MEASURES,
) -> str:
    """Return the reason of a choice in a sentence.

    Args:
        methods: names and numbers of passes, the cheapest first.
        best, beaten, gains: result of `choose`.
        measures: names of the measures that it compared.
    """
    label = [f"{name} ({_passes(number)})" for name, number in methods]
    if len(label) == 1:
        return f"Use {label[0]}, the only method."
    if not gains:
        return (
            f"Use {label[0]}: on these {rows} inputs no other method has a lower {' or a lower '.join(measures)} "
            f"beyond chance (paired bootstrap, {100 * LEVEL:.0f} %)."
        )
    better = [f"its {name} is lower by {own}" for name, own in zip(measures, gains, strict=True) if own.low > ROUNDING]
    rest = ", and no further method is better beyond chance" if best < len(label) - 1 else ""
    return f"Use {label[best]}: compared with {label[beaten]}, {' and '.join(better)}{rest}."


def _about_ood(known: Outcome, unknown: Outcome) -> str:
    entropy = auroc(known.entropy, unknown.entropy)
    if known.novelty is None or unknown.novelty is None:
        return f"Its entropy separates the out-of-distribution inputs with an AUROC of {entropy:.3f}."
    found = auroc_gain(
        np.stack([known.novelty, known.entropy], axis=1), np.stack([unknown.novelty, unknown.entropy], axis=1)
    )
    advice = "use novelty" if found.low > 0 else "use the entropy" if found.high < 0 else "either will do"
    return (
        f"To recognise out-of-distribution inputs {advice}: AUROC {entropy + found.value:.3f} by novelty and "
        f"{entropy:.3f} by entropy, a difference of {found}."
    )


def _passes(number: float) -> str:
    return "1 pass" if number == 1 else f"{number:.4g} passes"
