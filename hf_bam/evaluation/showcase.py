"""Words and small tables about the uncertainty of a classifier: methods, prediction sets, novelty and abstention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import metrics, tables
from .comparison import Comparison
from .recommendation import gain, losses_of, resampled_means

COLUMNS = ("error_auroc", "set_coverage", "set_size", "passes")
ANSWERED = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Shares of the inputs that are answered, in the table of abstention."""
SHOWN = 60
"""Characters of a text that are shown."""


def method_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each method: measures, with half of the 95 % interval of accuracy and NLL."""
    rows = []
    for row in comparison.table:
        name = str(row["method"])
        nll, error = losses_of(comparison.labels, comparison.outcomes[name])
        half = {key: 1.96 * own.std() / math.sqrt(len(own)) for key, own in {"accuracy": error, "nll": nll}.items()}
        numbers = {key: f"{row[key]:.3f} ± {half[key]:.3f}" for key in half} | {"ece": row["ece"]}
        rows.append({"method": name, **numbers, **{key: row[key] for key in COLUMNS if key in row}})
    return rows


def against(comparison: Comparison, reference: str) -> str:
    """Return a sentence for each method that differs from a reference beyond chance, by the paired bootstrap."""
    base, sentences = losses_of(comparison.labels, comparison.outcomes[reference]), list[str]()
    for name, outcome in comparison.outcomes.items():
        pair = base - losses_of(comparison.labels, outcome)  # (2, B), positive: better than the reference
        for key, own in zip(("NLL", "error rate"), pair, strict=True):
            found = gain(float(own.mean()), resampled_means(own[:, None])[:, 0])
            if found.low > 0 or found.high < 0:
                who, other = (name, reference) if found.low > 0 else (reference, name)
                sentences.append(f"{who} is ahead of {other} in {key} by {abs(found.value):.3f}.")
    rest = "All other differences" if sentences else "All differences"
    sentences.append(f"{rest} to {reference} in NLL and error rate are within chance (paired bootstrap, 95 %).")
    return "\n".join(sentences)


def about_sets(labelled: tuple[Sequence[str], Sequence[int]], results: Sequence[Any], names: Sequence[str]) -> str:
    """Return coverage and sizes of prediction sets, with the first example of each size."""
    texts, labels = labelled
    covered = np.mean([names[label] in one.prediction_set for label, one in zip(labels, results, strict=True)])
    sizes = np.array([len(one.prediction_set) for one in results])
    lines = [f"\nPrediction sets, made to contain the label of 90 %: they contain that of {100 * covered:.1f} %."]
    for size in np.unique(sizes):
        first = int(np.flatnonzero(sizes == size)[0])
        shown = ", ".join(results[first].prediction_set) or "none"
        share = 100 * (sizes == size).mean()
        lines.append(f"  {size} label{'' if size == 1 else 's'}: {share:.0f} %, e.g. {shown}: {cut(texts[first])}")
    return "\n".join(lines)


def about_novelty(known: Sequence[Any], others: Mapping[str, tuple[Sequence[str], Sequence[Any]]]) -> str:
    """Return how many inputs of each domain are flagged, and how well novelty and entropy separate them.

    Args:
        known: results of inputs from the distribution of the training set.
        others: texts and results of other domains by name.
    """
    lines = [f"\nNovelty: {100 * flagged(known):.0f} % of the test set are flagged as not in distribution."]
    rows = []
    for name, (texts, results) in others.items():
        most = max(range(len(texts)), key=lambda index: results[index].novelty.score)
        aurocs = {
            "novelty_auroc": metrics.ood_auroc(scores(known, "novelty"), scores(results, "novelty")),
            "entropy_auroc": metrics.ood_auroc(scores(known, "entropy"), scores(results, "entropy")),
        }
        rows.append({"domain": name, "flagged": flagged(results), **aurocs, "most novel": cut(texts[most])})
    return "\n".join([*lines, tables.as_text(rows)])


def about_abstention(labels: Sequence[int], results: Sequence[Any]) -> str:
    """Return the error rate of the least uncertain inputs, by their share, and the effect of the fitted threshold."""
    wrong = np.array([one.prediction != label for label, one in zip(labels, results, strict=True)])
    order = np.argsort([one.entropy for one in results], kind="stable")
    rows = [
        {"answered": share, "error rate": float(wrong[order[: max(1, round(share * len(order)))]].mean())}
        for share in ANSWERED
    ]
    lines = ["\nAbstention: errors among the inputs with the smallest entropy", tables.as_text(rows)]
    if results[0].answered is not None:
        answered = np.array([one.answered for one in results])
        error = wrong[answered].mean() if answered.any() else math.nan
        lines.append(f"The fitted threshold answers {100 * answered.mean():.0f} %, with an error rate of {error:.3f}.")
    return "\n".join(lines)


def about_result(text: str, result: Any) -> str:
    """Return a prediction with its uncertainty on one line."""
    known = "" if result.in_distribution else ", unlike the training set"
    sets = "/".join(result.prediction_set) or "none"
    return f"  {result.label}  {result.probability:.2f} ± {result.std:.2f}  set {sets}{known}  {text}"


def scores(results: Sequence[Any], name: str) -> list[float]:
    """Return entropy or novelty of all results."""
    return [one.novelty.score if name == "novelty" else one.entropy for one in results]


def flagged(results: Sequence[Any]) -> float:
    """Return the share of results that are not in distribution."""
    return float(np.mean([not one.in_distribution for one in results]))


def cut(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1].rstrip()}…"
