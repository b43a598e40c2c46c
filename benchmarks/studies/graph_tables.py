"""Tables of the study on citation graphs."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .paired import mean_of_means

PLAIN = "GAT"
PAPER = {
    "cora": {"GAT": 83.00, "no KL": 83.39, "BAM-LF": 83.24, "BAM-LC": 83.34, "BAM-WF": 83.48, "BAM-WC": 83.81},
    "citeseer": {"GAT": 72.50, "no KL": 72.91, "BAM-LF": 72.86, "BAM-LC": 73.04, "BAM-WF": 73.18, "BAM-WC": 73.52},
}
"""Test accuracy in percent, means of five runs (Fan et al. 2020, Table 1)."""
MEASURES = ("accuracy", "nll", "ece", "error_auroc", "pavpu", "epistemic")
DEFAULT = "default"
"""Start of the names of configurations that differ in k; validation nodes choose among them."""
PAIRS = (
    ("BAM-WC, mean", "GAT, mean"),
    ("BAM-WC, samples", "GAT, mean"),
    ("BAM-WC, samples and dropout", "GAT, MC dropout"),
    ("default, mean", "GAT, mean"),
    ("default, samples", "GAT, mean"),
    ("default, samples", "GAT, MC dropout"),
    ("default, samples and dropout", "GAT, MC dropout"),
)
NONE_YET = "No run is finished yet."


def frame(records, rule):
    """Return a row for each method of each run, with the weights that a rule selects; measures of the test nodes.

    Accuracy and PAvPU are in percent. `validation` is the NLL of the validation nodes.
    """
    rows = []
    for record in records:
        selected = record["selected"][rule]
        for method, own in selected["test"].items():
            about = {name: record[name] for name in ("graph", "configuration", "seed")}
            values = {name: own[name] for name in MEASURES}
            about |= {"method": method, "validation": selected["validation"][method]["nll"]}
            rows.append({**about, **values, "accuracy": 100 * own["accuracy"]})
    return pd.DataFrame(rows)


def interval(values, digits=2, sign=""):
    """Return mean and half of its 95 % interval over seeds as text; the mean alone of a single seed."""
    values = pd.Series(values).dropna().astype(float)
    if values.empty:
        return "-"
    if len(values) == 1:
        return f"{values.iloc[0]:{sign}.{digits}f}"
    mean, half = mean_of_means([values])
    return f"{mean:{sign}.{digits}f} ± {half:.{digits}f}"


def table_1(records):
    """Return the accuracy of mean attention by configuration, beside the paper's and with its difference to GAT."""
    rows = frame(records, "published")
    if rows.empty:
        return NONE_YET
    rows = rows[(rows["method"] == "mean") & ~rows["configuration"].str.startswith(DEFAULT)]
    lines = []
    for graph, own in rows.groupby("graph", sort=False):
        wide = own.pivot_table(index="seed", columns="configuration", values="accuracy", sort=False)
        for name in wide:
            difference = wide[name] - wide[PLAIN] if PLAIN in wide else None
            paper = PAPER.get(graph, {}).get(name)
            gain = None if paper is None else paper - PAPER[graph][PLAIN]
            lines.append(
                {
                    "graph": graph,
                    "attention": name,
                    "seeds": str(wide[name].count()),
                    "accuracy": interval(wide[name]),
                    "minus GAT": "-" if name == PLAIN or difference is None else interval(difference, sign="+"),
                    "paper": "-" if paper is None else f"{paper:.2f}",
                    "paper minus GAT": "-" if not gain else f"{gain:+.2f}",
                }
            )
    return as_markdown(lines, text_columns=2)


def chosen(rows):
    """Return rows in which the configurations `default k=...` are one, `default`: the one that validation chooses.

    For each graph and seed it is the one whose samples have the lowest NLL on the validation nodes.
    """
    ours = rows[rows["configuration"].str.startswith(DEFAULT)]
    others = rows[~rows["configuration"].str.startswith(DEFAULT)]
    picked = ours[ours["method"] == "samples"]
    if picked.empty:
        return others
    picked = picked.loc[picked.groupby(["graph", "seed"])["validation"].idxmin(), ["graph", "seed", "configuration"]]
    kept = ours.merge(picked, on=["graph", "seed", "configuration"])
    return pd.concat([others, kept.assign(chosen=kept["configuration"], configuration=DEFAULT)], ignore_index=True)


def measure_table(records):
    """Return all measures by configuration and method, with the weights of the lowest validation loss."""
    rows = frame(records, "loss")
    if rows.empty:
        return NONE_YET
    lines = []
    for (graph, name, method), own in chosen(rows).groupby(["graph", "configuration", "method"], sort=False):
        values = {key: interval(own[key], digits=2 if key == "accuracy" else 3) for key in MEASURES}
        lines.append({"graph": graph, "attention": name, "method": method, **values})
    return as_markdown(lines, text_columns=3)


def pair_table(records):
    """Return the differences of `PAIRS`, paired by seed, with the weights of the lowest validation loss."""
    rows = frame(records, "loss")
    if rows.empty:
        return NONE_YET
    rows = chosen(rows)
    rows["name"] = rows["configuration"] + ", " + rows["method"]
    lines = []
    for graph, own in rows.groupby("graph", sort=False):
        wide = {key: own.pivot_table(index="seed", columns="name", values=key) for key in MEASURES[:-1]}
        for name, reference in PAIRS:
            found = {
                key: table[name] - table[reference]
                for key, table in wide.items()
                if name in table and reference in table
            }
            if found:
                values = {key: interval(value, 2 if key == "accuracy" else 3, "+") for key, value in found.items()}
                seeds = str(found["accuracy"].count())
                lines.append({"graph": graph, "method": name, "minus": reference, "seeds": seeds, **values})
    return as_markdown(lines, text_columns=3) if lines else NONE_YET


def choice_table(records):
    """Return by k: NLL of samples on the validation nodes, test accuracy and NLL, and how many seeds choose it."""
    rows = frame(records, "loss")
    if rows.empty or not rows["configuration"].str.startswith(DEFAULT).any():
        return NONE_YET
    picked = chosen(rows)
    picked = picked[picked["method"] == "samples"]
    lines = []
    ours = rows[rows["configuration"].str.startswith(DEFAULT) & (rows["method"] == "samples")]
    for (graph, name), own in ours.groupby(["graph", "configuration"], sort=False):
        count = ((picked["graph"] == graph) & (picked["chosen"] == name)).sum()
        lines.append(
            {
                "graph": graph,
                "attention": name,
                "validation nll": interval(own["validation"], 3),
                "accuracy": interval(own["accuracy"]),
                "nll": interval(own["nll"], 3),
                "epistemic": interval(own["epistemic"], 3),
                "chosen by": f"{count} of {own['seed'].nunique()} seeds",
            }
        )
    return as_markdown(lines, text_columns=2)


def cost_table(records):
    """Return medians over the runs: number of epochs, epoch that each rule keeps, seconds of one core."""
    if not records:
        return NONE_YET
    rows = pd.DataFrame(
        {
            **{name: record[name] for name in ("graph", "configuration", "epochs", "seconds")},
            "published": record["selected"]["published"]["epoch"],
            "loss": record["selected"]["loss"]["epoch"],
            "ms": 1000 * record["seconds"] / record["epochs"],
        }
        for record in records
    )
    lines = []
    for (graph, name), own in rows.groupby(["graph", "configuration"], sort=False):
        lines.append(
            {
                "graph": graph,
                "attention": name,
                "runs": str(len(own)),
                "epochs": f"{own['epochs'].median():.0f}",
                "epoch by the published rule": f"{own['published'].median():.0f}",
                "by loss": f"{own['loss'].median():.0f}",
                "seconds": f"{own['seconds'].median():.0f}",
                "ms an epoch": f"{own['ms'].median():.0f}",
            }
        )
    return as_markdown(lines, text_columns=2)


def parts(records):
    """Return the generated parts of the page by marker."""
    return {
        "table 1": table_1(records),
        "measures": measure_table(records),
        "pairs": pair_table(records),
        "choice": choice_table(records),
        "costs": cost_table(records),
    }
