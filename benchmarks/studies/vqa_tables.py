"""Tables of the study of questions about images."""

import pandas as pd
from matplotlib.figure import Figure

from hf_bam.evaluation.plots.style import PALETTE, styled, tidy
from hf_bam.evaluation.tables import as_markdown

from .graph_tables import NONE_YET, interval
from .vqa import STRENGTHS, THRESHOLDS

SOFT = "soft"
ATTENTION = (SOFT, "BAM-LF", "BAM-LC", "BAM-WF", "BAM-WC")
"""Kinds of attention in the paper's order."""
MEASURES = {"accuracy": "accuracy"} | {f"pavpu {threshold}": f"PAvPU, {threshold}" for threshold in THRESHOLDS}
"""Measures of the paper's table, with their titles."""
NOISY = 1.0
"""Strength of the noise in the table of noisy images."""


def frame(records):
    """Return a row for each method and strength of each run, in percent and in the order of `ATTENTION`."""
    rows = pd.DataFrame(
        {"attention": record["configuration"], "seed": record["seed"], **row}
        for record in sorted(records, key=lambda own: (ATTENTION.index(own["configuration"]), own["seed"]))
        for row in record["methods"]
    )
    percent = [name for name in rows if name == "accuracy" or name.startswith("pavpu")]
    rows[percent] = 100 * rows[percent]
    return rows


def samples(records, strength):
    """Return the rows of samples at one strength of the noise by seed."""
    rows = frame(records)
    return rows[(rows["method"] == "samples") & (rows["noise"] == strength)].set_index("seed")


def table_2(records, strength):
    """Return accuracy and PAvPU of samples at one strength."""
    if not records:
        return NONE_YET
    lines = []
    for name, own in samples(records, strength).groupby("attention", sort=False):
        line = {"attention": name, "seeds": str(len(own))}
        line |= {title: interval(own[measure]) for measure, title in MEASURES.items()}
        lines.append(line | {"nll": interval(own["nll"], 3), "ece": interval(own["ece"], 3)})
    return as_markdown(lines, text_columns=1)


def differences(records):
    """Return accuracy and PAvPU minus those of soft attention with the same seed."""
    if not records:
        return NONE_YET
    lines = []
    for images, strength in (("original", 0.0), ("noisy", NOISY)):
        kinds = dict(list(samples(records, strength).groupby("attention", sort=False)))
        soft = kinds.pop(SOFT, None)
        for name, own in kinds.items() if soft is not None else ():
            values = {title: interval(own[measure] - soft[measure], sign="+") for measure, title in MEASURES.items()}
            lines.append({"images": images, "attention": name, **values})
    return as_markdown(lines, text_columns=2) if lines else NONE_YET


def curve(records):
    """Return the accuracy of samples, and of one pass, by the strength of the noise."""
    if not records:
        return NONE_YET
    lines = []
    for (name, method), own in frame(records).groupby(["attention", "method"], sort=False):
        values = {f"{noise:g}": interval(own[own["noise"] == noise]["accuracy"]) for noise in STRENGTHS}
        lines.append({"attention": name, "method": method, **values})
    return as_markdown(lines, text_columns=2)


def noise_figure(records):
    """Return a plot of the accuracy of samples by the strength of the noise."""
    rows = frame(records)
    means = rows[rows["method"] == "samples"].groupby(["attention", "noise"], sort=False)["accuracy"].mean()
    with styled():
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        for color, name in zip(PALETTE, means.index.unique("attention"), strict=False):
            axes.plot(means[name].index, means[name], marker="o", markersize=4, color=color, label=name)
        axes.set(xlabel="standard deviation of the noise", ylabel="accuracy (%)")
        axes.legend()
        tidy(axes)
    return figure


def parts(records):
    """Return the generated parts of the page by marker."""
    return {
        "original": table_2(records, 0.0),
        "noisy": table_2(records, NOISY),
        "differences": differences(records),
        "curve": curve(records),
    }
