"""Tables of the study."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .headlines import HEADLINES
from .paired import ENOUGH_SEEDS, PAIRS, differences

TOKENS = ("token_nll", "token_ece", "token_error_auroc")
MEASURES = (
    "score",
    "nll",
    "ece",
    "brier",
    "error_auroc",
    "aurc",
    "pavpu",
    "ood_auroc",
    "disagreement",
    "crps",
    "coverage_90",
    "error_spearman",
    *TOKENS,
    "epistemic",
)
PAIRED = ("accuracy", "nll", "ece", "error_auroc", "aurc", "ood_auroc")
PAIRED_OTHERS = ("score", "crps", "coverage_90", "error_spearman", "ece", "error_auroc", "aurc", "ood_auroc", *TOKENS)
"""Measures of the paired differences, of classification and of other tasks."""
PAIRED_BY_TASK = ("score", "nll", "error_auroc")
RANKED = ("score", "nll", "ece", "brier", "error_auroc", "aurc")
GREATER_IS_BETTER = ("score", "error_auroc")
DEFAULT_PRIOR = "default (`beta=100.0`)"
TRAINED = ("mean", "samples", "samples and dropout")
KL_WEIGHTS, SHAPES = (0, 0.0001, 0.001, 0.01, 1), (20, 5, 1)


def mean_std(values):
    """Return mean and standard deviation as text; the value alone if there is one."""
    values = values.dropna()
    if values.empty:
        return "-"
    spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def interval(difference):
    """Return a difference with half of its interval as text."""
    return "-" if difference is None else f"{difference[0]:+.3f} ± {difference[1]:.3f}"


def by_task(rows, table):
    """Return the tables of all tasks that have one, under headings."""
    tables = {task: table(own) for task, own in rows.groupby("task", sort=False)}
    return "\n\n".join(f"### {task}\n\n{text.strip()}" for task, text in tables.items() if text)


def score_table(scores):
    """Return mean and standard deviation over seeds: a line for each set and metric, a column for each method."""
    return by_set(
        scores, lambda own: {name: mean_std(part["value"]) for name, part in own.groupby("method", sort=False)}
    )


def gain_table(scores):
    """Return paired differences to plain: a line for each set and metric, a column for each method."""
    return by_set(scores, lambda own: {name: interval(found) for name, found in differences(own, "value").items()})


def by_set(scores, entries):
    groups = {key: entries(own) for key, own in scores.groupby(["task", "set", "metric"], sort=False)}
    names = dict.fromkeys(name for own in groups.values() for name in own)
    lines = [
        dict(zip(("task", "set", "metric"), key, strict=True)) | {name: own.get(name) for name in names}
        for key, own in groups.items()
        if own
    ]
    return as_markdown(lines, text_columns=3)


def task_table(rows):
    """Return all measures of one task: mean and standard deviation over seeds."""
    names = [name for name in MEASURES if name in rows and rows[name].notna().any()]
    return as_markdown(
        [
            {"method": method, "seeds": own["seed"].nunique()} | {name: mean_std(own[name]) for name in names}
            for method, own in rows.groupby("method", sort=False)
        ]
    )


def difference_table(rows):
    """Return paired differences to plain of every task."""
    lines = []
    for task, own in rows.groupby("task", sort=False):
        columns = {name: differences(own, name) for name in PAIRED_BY_TASK}
        lines += [
            {"task": task, "method": method} | {name: interval(found.get(method)) for name, found in columns.items()}
            for method in columns[PAIRED_BY_TASK[0]]
        ]
    return as_markdown(lines, text_columns=2)


def pair_table(rows, measures=PAIRED):
    """Return the differences of `PAIRS` over all tasks in which both methods have enough seeds.

    Measures without any difference are left out.
    """
    references = dict.fromkeys(reference for _, reference in PAIRS)
    known = {reference: {name: differences(rows, name, reference) for name in measures} for reference in references}
    lines = []
    for method, reference in PAIRS:
        found = {name: entries[method] for name, entries in known[reference].items() if method in entries}
        if found:
            tasks = ", ".join(next(iter(found.values()))[-1])
            lines.append({"method": method, "minus": reference, "tasks": tasks, **found})
    names = [name for name in measures if any(name in line for line in lines)]
    lines = [{**line, **{name: interval(line.get(name)) for name in names}} for line in lines]
    columns = ("method", "minus", "tasks", *names)
    return as_markdown([{name: line[name] for name in columns} for line in lines], text_columns=3) if lines else ""


def rank_table(rows):
    """Return mean ranks over tasks and seeds, 1 the best, of the methods that have enough seeds of each task.

    Only tasks with an ensemble are used: the others have few methods.
    """
    tasks = rows.loc[rows["method"].str.startswith("ensemble"), "task"].unique()
    rows = rows[rows["task"].isin(tasks)]
    rows = rows[rows.groupby(["task", "method"])["seed"].transform("nunique") >= ENOUGH_SEEDS]
    rows = rows[rows.groupby("method")["task"].transform("nunique") == rows["task"].nunique()]
    if rows.empty:
        return "No task has an ensemble yet."
    ranks = {}
    for name in RANKED:
        values = rows.pivot_table(index=["task", "seed"], columns="method", values=name, sort=False).dropna()
        ranks[name] = values.rank(axis=1, ascending=name not in GREATER_IS_BETTER).mean()
    table = pd.DataFrame(ranks).sort_values("nll")
    return as_markdown(
        [{"method": method} | {name: f"{rank:.1f}" for name, rank in row.items()} for method, row in table.iterrows()]
    )


def selection_table(records):
    """Return the held-out NLL of untrained noise by k, mean over seeds, beside that of the plain prediction."""
    rows = []
    for record in records:
        for method, selection in record.get("selection", {}).items():
            if "1.0" in selection["losses"]:
                about = {"task": record["task"], "configuration": record["configuration"], "method": method}
                rows.append({**about, "no noise": record["held_out"]["plain"]["nll"], **selection["losses"]})
    if not rows:
        return ""
    table = pd.DataFrame(rows).groupby(["task", "configuration", "method"], sort=False).mean()
    names = {name: name if name == "no noise" else f"k = {float(name):g}" for name in table}
    return as_markdown(
        [
            dict(zip(table.index.names, key, strict=True))
            | {names[name]: f"{value:.3f}" for name, value in row.items()}
            for key, row in table.iterrows()
        ],
        text_columns=3,
    )


def pilot_table(records):
    """Return the measures of all configurations on held-out rows: mean and standard deviation over seeds."""
    rows = []
    for record in records:
        found = record.get("held_out", {})
        single, sampled, both = ("plain", "MC dropout", None) if "plain" in found else TRAINED
        if sampled in found:
            rows.append(
                {
                    "task": record["task"],
                    "configuration": record["configuration"],
                    "accuracy": found[single]["accuracy"],
                    "nll, single": found[single]["nll"],
                    "nll, single + temperature": found[single]["nll + temperature"],
                    "nll, samples": found[sampled]["nll"],
                    "nll, samples + temperature": found[sampled]["nll + temperature"],
                    "nll, samples and dropout": found.get(both, {}).get("nll"),
                    "error_auroc, single": found[single]["error_auroc"],
                    "error_auroc, samples": found[sampled]["error_auroc"],
                    "epistemic": found[sampled]["epistemic"],
                }
            )
    if not rows:
        return ""
    table = pd.DataFrame(rows).sort_values("task", kind="stable")
    names = list(table)[2:]
    return as_markdown(
        [
            {"task": task, "configuration": name, "seeds": len(own)} | {key: mean_std(own[key]) for key in names}
            for (task, name), own in table.groupby(["task", "configuration"], sort=False)
        ],
        text_columns=2,
    )


def objective_table(records):
    """Return task loss and KL by k, and the k that minimises the objective by weight of the KL."""
    rows = [
        {"task": record["task"], "configuration": record["configuration"], **row}
        for record in records
        for row in record.get("objective", [])
    ]
    if not rows:
        return ""
    lines = []
    for (task, configuration), own in pd.DataFrame(rows).groupby(["task", "configuration"], sort=False):
        means = own.groupby("k").mean(numeric_only=True)
        loss, kl = means["task_loss"], means["kl"]
        lines.append(
            {"task": task, "configuration": configuration}
            | {f"loss / KL, k = {k}": f"{loss.loc[k]:.3f} / {kl.loc[k]:.2f}" for k in SHAPES}
            | {f"best k, KL x {weight}": f"{(loss + weight * kl).idxmin():g}" for weight in KL_WEIGHTS}
        )
    return as_markdown(lines, text_columns=2)


def cost_table(rows):
    """Return medians over all runs, relative to plain: time and memory of the training, time of the prediction."""
    names = [name for name in rows if name.endswith("/ plain")]
    rows = rows[~rows["method"].str.endswith("temperature")]
    return as_markdown(
        [
            {"method": method}
            | {name: f"{own[name].median():.2f}" if own[name].notna().any() else None for name in names}
            for method, own in rows.groupby("method", sort=False)
        ]
    )


def spread_table(rows):
    """Return the spread of the log odds of a plain model by kind and width of the noise, and measures of it."""
    about = ("method", "layers", "k", "rate")
    measures = ("logit_deviation", "accuracy", "nll", "nll_with_temperature", "ece", "error_auroc", "epistemic")
    return as_markdown(
        [
            {name: str(row.get(name, "-")) for name in about} | {name: f"{row[name]:.3f}" for name in measures}
            for row in rows
        ],
        text_columns=2,
    )


def prior_table(rows):
    """Return entropy of the prior and its mass on the marked key, by settings: mean and range over seeds."""
    lines = []
    for row in rows:
        settings = ", ".join(f"`{name}={value!r}`" for name, value in row["settings"].items())
        entropy, mass = (mean_range([run[name] for run in row["runs"]]) for name in ("entropy", "mass"))
        lines.append({"settings": settings or DEFAULT_PRIOR, "entropy": entropy, "mass on the marked key": mass})
    return as_markdown(lines)


def mean_range(values):
    return f"{sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def headline_table(records, scores):
    """Return the main score of plain attention and of BAM-WC on every task, with the length of the training."""
    lines = []
    for task, headline in HEADLINES.items():
        own = headline.select(scores, task)
        runs = [r for r in records if r["task"] == task and r["configuration"] in ("plain", headline.bam)]
        minutes = pd.Series([run["training_seconds"] / 60 for run in runs]).median()
        plain, bam = (own[own["method"] == name] for name in ("plain", headline.bam))
        lines.append(
            {
                "task": headline.title,
                "steps": runs[0]["steps"],
                "minutes": f"{minutes:.0f}",
                "seeds": plain["seed"].nunique(),
                "plain": mean_std(plain["value"]),
                "BAM-WC": mean_std(bam["value"]),
            }
        )
    return as_markdown(lines)
