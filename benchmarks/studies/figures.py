"""Figures of the study."""

from matplotlib.figure import Figure

from hf_bam.evaluation.plots.style import BLACK, GREY, PALETTE, styled, tidy

from .headlines import HEADLINES
from .paired import differences

METHODS = {
    "plain + temperature": "plain + temperature",
    "MC dropout": "MC dropout",
    "MC dropout + temperature": "MC dropout + temperature",
    "BAM-WC, mean": "BAM, mean attention",
    "BAM-WC, samples": "BAM, samples",
    "BAM-WC, samples + temperature": "BAM, samples + temperature",
    "no KL, samples": "BAM without KL, samples",
    "ensemble of 5": "ensemble of 5",
}
"""Methods of the figure, with their labels."""
MEASURES = {
    "accuracy": "Accuracy (higher is better)",
    "nll": "NLL (lower is better)",
    "ece": "ECE (lower is better)",
}


def uncertainty(rows):
    """Return differences to plain with the same seed: of every task, and the mean over tasks with its interval."""
    names = list(METHODS)
    tasks = list(rows.groupby("task", sort=False))
    with styled():
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        columns = figure.subplots(1, len(MEASURES), sharey=True)
        for axes, (measure, title) in zip(columns, MEASURES.items(), strict=True):
            for color, (task, own) in zip(PALETTE, tasks, strict=False):
                found = differences(own, measure)
                points = [(found[name][0], row - 0.2) for row, name in enumerate(names) if name in found]
                style = {"linestyle": "none", "marker": "o", "markersize": 4.5, "color": color}
                axes.plot(*zip(*points, strict=True), label=HEADLINES[task].title.split(",")[0], **style)
            found = differences(rows, measure)
            known = [name for name in names if name in found]
            means, halves = zip(*(found[name][:2] for name in known), strict=True)
            style = {"fmt": "D", "color": BLACK, "markersize": 5, "elinewidth": 1.6, "capsize": 3}
            axes.errorbar(means, [names.index(name) for name in known], xerr=halves, label="mean of tasks", **style)
            axes.axvline(0, color=GREY, linewidth=1)
            axes.set(title=title, xlabel="difference to plain")
            axes.set_yticks(range(len(names)), METHODS.values())
            tidy(axes)
        axes.invert_yaxis()
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def scores(rows):
    """Return differences of the main scores to plain with the same seed, in percentage points, with intervals."""
    with styled():
        figure = Figure(figsize=(8.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, (label, by_task) in enumerate(score_differences(rows).items()):
            positions = [list(HEADLINES).index(task) + 0.24 * (number - 0.5) for task in by_task]
            means, halves = zip(*by_task.values(), strict=True)
            style = {"fmt": "os"[number], "color": PALETTE[number], "markersize": 6, "elinewidth": 1.6, "capsize": 3}
            axes.errorbar(means, positions, xerr=halves, label=label, **style)
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set(xlabel="difference to plain, points", title="Scores of mean attention, with 95 % intervals")
        axes.set_yticks(range(len(HEADLINES)), [headline.title for headline in HEADLINES.values()])
        axes.set_ylim(len(HEADLINES) - 0.5, -0.5)
        tidy(axes)
        axes.legend(loc="lower right")
    return figure


def score_differences(rows):
    """Return paired differences and half of their intervals, by label and task."""
    found = {"BAM": {}, "BAM without KL": {}}
    for task, headline in HEADLINES.items():
        known = differences(headline.select(rows, task), "value")
        for label, configuration in zip(found, (headline.bam, "no KL"), strict=True):
            if configuration in known:
                mean, half, _ = known[configuration]
                found[label][task] = headline.factor * mean, headline.factor * half
    return found
