"""Tables of the study of everything that a user can do about uncertainty."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .graph_tables import NONE_YET, interval

TASK = "clinc150"
PLAIN = "plain"
METHODS = {
    "passes": 0,
    "accuracy": 4,
    "nll": 3,
    "ece": 4,
    "error_auroc": 3,
    "ood_auroc_entropy": 4,
    "ood_auroc_novelty": 4,
    "set_coverage": 3,
    "set_size": 2,
}
"""Measures of a method, with their decimals."""
JOINT = {
    "ood_auprc_entropy": 3,
    "ood_auprc_novelty": 3,
    "joint_accuracy": 3,
    "joint_ece": 3,
    "joint_nll_entropy": 3,
    "joint_nll_novelty": 3,
    "joint_ece_entropy": 3,
    "joint_ece_novelty": 3,
}
CURVE = {"nll": 3, "error_auroc": 3, "ood_auroc": 4}


def frame(records):
    """Return a row for each method of each run of CLINC150."""
    rows = [
        {"configuration": record["configuration"], "seed": record["seed"], **row}
        for record in records
        if record["task"] == TASK
        for row in record["methods"]
    ]
    return pd.DataFrame(rows)


def method_table(records, measures):
    """Return means over seeds with their 95 % intervals, by configuration and method."""
    rows = frame(records)
    if rows.empty:
        return NONE_YET
    lines = []
    for (configuration, method), own in rows.groupby(["configuration", "method"], sort=False):
        values = {name: interval(own[name], digits) for name, digits in measures.items() if name in own}
        lines.append({"training": configuration, "method": method, "seeds": str(len(own)), **values})
    return as_markdown(lines, text_columns=2)


def training_table(records):
    """Return accuracies by configuration on the whole test set, minus plain training with the same seed, and times."""
    rows = pd.DataFrame(
        {
            "training": record["configuration"],
            "seed": record["seed"],
            "held-out accuracy": record["scores"]["validation"]["accuracy"],
            "accuracy": record["scores"]["test"]["accuracy"],
            "steps": record["steps"],
        }
        for record in records
        if record["task"] == TASK and "scores" in record
    )
    if rows.empty:
        return NONE_YET
    plain, lines = rows[rows["training"] == PLAIN].set_index("seed"), []
    for name, own in rows.groupby("training", sort=False):
        own = own.set_index("seed")
        line = {"training": name, "seeds": str(len(own)), "steps": str(int(own["steps"].iloc[0]))}
        for key in ("held-out accuracy", "accuracy"):
            difference = (own[key] - plain[key]).dropna()
            line[key] = interval(own[key], 4)
            line[f"{key} minus plain"] = "-" if name == PLAIN or difference.empty else interval(difference, 4, "+")
        lines.append(line)
    return as_markdown(lines, text_columns=1)


def score_table(records):
    """Return the AUROC of each score of out-of-scope questions, in the deterministic model."""
    rows = pd.DataFrame(
        {"training": record["configuration"], **record["ood_scores"]}
        for record in records
        if record["task"] == TASK and "ood_scores" in record
    )
    if rows.empty:
        return NONE_YET
    lines = [
        {"training": name, "seeds": str(len(own)), **{key: interval(own[key], 4) for key in own.columns[1:]}}
        for name, own in rows.groupby("training", sort=False)
    ]
    return as_markdown(lines, text_columns=1)


def curve_table(records):
    """Return the quality of samples by their number, without a temperature."""
    rows = pd.DataFrame(
        {"training": record["configuration"], **row}
        for record in records
        if record["configuration"] in (PLAIN, "BAM")
        for row in record.get("curve", [])
    )
    if rows.empty:
        return NONE_YET
    lines = []
    for (name, number), own in rows.groupby(["training", "samples"], sort=False):
        method = "MC dropout" if name == PLAIN else "BAM"
        values = {key: interval(own[key], digits) for key, digits in CURVE.items()}
        lines.append({"method": method, "samples": str(number), "seeds": str(len(own)), **values})
    return as_markdown(lines, text_columns=1)


def parts(records):
    """Return the generated parts of the page by marker."""
    return {
        "training": training_table(records),
        "methods": method_table(records, METHODS),
        "joint": method_table(records, JOINT),
        "scores": score_table(records),
        "curve": curve_table(records),
    }
