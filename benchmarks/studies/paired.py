"""Paired differences between methods, with the same task and seed."""

import math

import numpy as np
from scipy import stats

ENOUGH_SEEDS = 3
SAMPLES, SCALED = "BAM-WC, samples", "BAM-WC, samples + temperature"
PAIRS = (
    ("BAM-WC, mean", "plain"),
    (SAMPLES, "plain"),
    (SAMPLES, "plain + temperature"),
    (SAMPLES, "MC dropout"),
    (SAMPLES, "ensemble of 5"),
    (SCALED, "plain + temperature"),
    (SCALED, "MC dropout + temperature"),
    (SCALED, "ensemble of 5 + temperature"),
    (SAMPLES, "no KL, samples"),
    (SAMPLES, "BAM-WF, samples"),
    (SAMPLES, "BAM-LC, samples"),
    (SAMPLES, "BAM-LF, samples"),
    (SAMPLES, "paper, samples"),
    ("paper, mean", "plain"),
    ("plain without dropout, plain", "plain"),
    ("plain without dropout, plain + temperature", "plain + temperature"),
    (SAMPLES, "plain without dropout, plain"),
    (SCALED, "plain without dropout, plain + temperature"),
    ("BAM-WC and dropout, mean", "plain"),
    ("BAM-WC and dropout, samples", "plain"),
    ("BAM-WC and dropout, samples", "plain + temperature"),
    ("BAM-WC and dropout, samples", "MC dropout"),
    ("BAM-WC and dropout, samples + temperature", "plain + temperature"),
    ("BAM-WC and dropout, samples + temperature", "MC dropout + temperature"),
)
"""Methods that are compared, and the reference of each."""


def differences(rows, name, reference="plain"):
    """Return paired differences to a reference, by method: mean over tasks, half of its 95 % interval, and the tasks.

    All tasks have the same weight, whatever their number of seeds. The one ensemble of a task is compared with each
    seed. Tasks with fewer than `ENOUGH_SEEDS` seeds are left out.

    Args:
        rows: with columns task, seed, method and `name`.
    """
    if name not in rows:
        return {}
    wide = rows.pivot_table(index=["task", "seed"], columns="method", values=name, sort=False)
    if reference not in wide:
        return {}
    for method in wide:
        if method.startswith("ensemble"):
            wide[method] = wide.groupby("task")[method].transform("first")
    paired = wide.drop(columns=reference).sub(wide[reference], axis=0)
    found = {}
    for method in paired:
        by_task = paired[method].dropna().groupby("task", sort=False)
        groups = {task: own for task, own in by_task if len(own) >= ENOUGH_SEEDS}
        if groups:
            found[method] = *mean_of_means(groups.values()), list(groups)
    return found


def mean_of_means(groups):
    """Return the mean over groups of their means, and half of its 95 % interval, by Welch's degrees of freedom."""
    squares = np.array([own.sem() ** 2 for own in groups])
    freedom = squares.sum() ** 2 / sum(squares**2 / [len(own) - 1 for own in groups]) if squares.any() else 1
    half = stats.t.ppf(0.975, freedom) * math.sqrt(squares.sum()) / len(groups)
    return np.mean([own.mean() for own in groups]), half
