"""Methods of the study against each other, with the same task and seed."""

import math
from itertools import chain

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from render import markdown
from scipy import stats

from hf_bam.evaluation.plots.style import styled

ENOUGH_SEEDS = 3
DRAWS, SCALED = "BAM-WC, draws", "BAM-WC, draws + temperature"
PAIRS = (
    ("BAM-WC, mean", "plain"),
    (DRAWS, "plain"),
    (DRAWS, "plain + temperature"),
    (DRAWS, "MC dropout"),
    (DRAWS, "ensemble of 5"),
    (SCALED, "plain + temperature"),
    (SCALED, "MC dropout + temperature"),
    (SCALED, "ensemble of 5 + temperature"),
    (DRAWS, "no KL, draws"),
    (DRAWS, "BAM-WF, draws"),
    (DRAWS, "BAM-LC, draws"),
    (DRAWS, "BAM-LF, draws"),
    (DRAWS, "paper, draws"),
    ("paper, mean", "plain"),
    ("plain without dropout, plain", "plain"),
    ("plain without dropout, plain + temperature", "plain + temperature"),
    (DRAWS, "plain without dropout, plain"),
    (SCALED, "plain without dropout, plain + temperature"),
    ("BAM-WC and dropout, mean", "plain"),
    ("BAM-WC and dropout, draws", "plain"),
    ("BAM-WC and dropout, draws", "plain + temperature"),
    ("BAM-WC and dropout, draws", "MC dropout"),
    ("BAM-WC and dropout, draws + temperature", "plain + temperature"),
    ("BAM-WC and dropout, draws + temperature", "MC dropout + temperature"),
)
BY_TASK = ("score", "nll", "error_auroc")
"""Measures of the differences by task, in their table and in the plot."""
COMPARED = ("accuracy", "nll", "ece", "error_auroc", "aurc", "ood_auroc")
TOKENS = ("token_nll", "token_ece", "token_error_auroc")
OTHERS = ("score", "crps", "coverage_90", "error_spearman", "ece", "error_auroc", "aurc", "ood_auroc", *TOKENS)
"""Measures where predictions are numbers or texts, each task by itself."""
RANKED = ("score", "nll", "ece", "brier", "error_auroc", "aurc")
BETTER_HIGH = ("score", "error_auroc")


def differences(rows, name, reference="plain"):
    """Method minus reference of the same task and seed: mean over tasks, half of its 95 % interval, and which tasks.

    Tasks count alike however many seeds they have. The one ensemble of a task stands beside each of its seeds.
    """
    if name not in rows:
        return {}
    wide = rows.pivot_table(index=["task", "seed"], columns="method", values=name, sort=False)
    if reference not in wide:
        return {}
    for method in wide:
        if method.startswith("ensemble"):
            wide[method] = wide.groupby("task")[method].transform("first")
    apart = wide.drop(columns=reference).sub(wide[reference], axis=0)
    found = {}
    for method in apart:
        by_task = apart[method].dropna().groupby("task", sort=False)
        groups = {task: own for task, own in by_task if len(own) >= ENOUGH_SEEDS}
        if groups:
            found[method] = *mean_of_means(groups.values()), list(groups)
    return found


def mean_of_means(groups):
    """The mean over groups of their means, and half of its 95 % interval by Welch's degrees of freedom."""
    squares = np.array([own.sem() ** 2 for own in groups])
    freedom = squares.sum() ** 2 / sum(squares**2 / [len(own) - 1 for own in groups]) if squares.any() else 1
    half = stats.t.ppf(0.975, freedom) * math.sqrt(squares.sum()) / len(groups)
    return np.mean([own.mean() for own in groups]), half


def signed(entry):
    return "-" if entry is None else f"{entry[0]:+.3f} ± {entry[1]:.3f}"


def difference_table(rows):
    """Paired differences of all tasks in three measures."""
    lines = []
    for task, own in rows.groupby("task", sort=False):
        columns = [differences(own, name) for name in BY_TASK]
        lines += [[task, method, *(signed(column.get(method)) for column in columns)] for method in columns[0]]
    return markdown(["task", "method", *BY_TASK], lines)


def pair_table(rows, measures=COMPARED):
    """The comparisons that answer questions, over all tasks in which both methods have enough seeds.

    Measures that no comparison has are left out.
    """
    references = dict.fromkeys(reference for _, reference in PAIRS)
    known = {reference: {name: differences(rows, name, reference) for name in measures} for reference in references}
    lines = []
    for method, reference in PAIRS:
        found = {name: entries[method] for name, entries in known[reference].items() if method in entries}
        if found:
            about = {"method": method, "minus": reference, "tasks": ", ".join(next(iter(found.values()))[-1])}
            lines.append(about | {name: signed(entry) for name, entry in found.items()})
    if not lines:
        return ""
    header = ["method", "minus", "tasks", *(name for name in measures if any(name in line for line in lines))]
    return markdown(header, [[line.get(name, "-") for name in header] for line in lines])


def rank_table(rows):
    """Mean rank over tasks and seeds, 1 the best, of the methods that have as many seeds of each task as it takes.

    Only the main tasks count, which are those with an ensemble: the others have few methods.
    """
    main = rows.loc[rows["method"].str.startswith("ensemble"), "task"].unique()
    rows = rows[rows["task"].isin(main)]
    many = rows[rows.groupby(["task", "method"])["seed"].transform("nunique") >= ENOUGH_SEEDS]
    kept = many[many.groupby("method")["task"].transform("nunique") == many["task"].nunique()]
    if kept.empty:
        return "No task has an ensemble yet."
    ranks = {}
    for name in RANKED:
        values = kept.pivot_table(index=["task", "seed"], columns="method", values=name, sort=False).dropna()
        ranks[name] = values.rank(axis=1, ascending=name not in BETTER_HIGH).mean()
    table = pd.DataFrame(ranks).sort_values("nll")
    return markdown(["method", *ranks], [[method, *(f"{r:.1f}" for r in row)] for method, row in table.iterrows()])


def plot(rows):
    """Differences to plain with their intervals, of the methods that are compared: by task, and over all tasks."""
    known = differences(rows, "nll")
    methods = [name for name in dict.fromkeys(chain(*PAIRS)) if name in known]
    groups = {**dict(list(rows.groupby("task", sort=False))), "all": rows}
    with styled():
        figure = Figure(figsize=(11, 1.2 + 0.42 * len(methods)), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(BY_TASK), sharey=True), BY_TASK, strict=True):
            for number, (task, own) in enumerate(groups.items()):
                found = differences(own, name)
                found = {method: found[method] for method in methods if method in found}
                places = np.array([methods.index(method) for method in found])
                means, halves, _ = zip(*found.values(), strict=True) if found else ((), (), ())
                style = {"fmt": "kD"} if task == "all" else {"fmt": "o"}
                shifted = places + 0.7 * (number / (len(groups) - 1) - 0.5)
                axes.errorbar(means, shifted, xerr=halves, markersize=3, linewidth=1, label=task, **style)
            axes.axvline(0, color="0.6", linewidth=0.8)
            axes.set(title=f"{name}, minus plain", yticks=range(len(methods)), yticklabels=methods)
        axes.invert_yaxis()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(groups), frameon=False)
    return figure
