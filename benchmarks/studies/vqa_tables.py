"""Tables of the study of questions about images."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .graph_tables import NONE_YET, interval
from .vqa import STRENGTHS, THRESHOLDS

SOFT = "soft"
NOISY = 1.0
"""Strength of the noise in the table of noisy images."""


def frame(records):
    """Return a row for each method and strength of each run, in percent."""
    rows = pd.DataFrame(
        {"attention": record["configuration"], "seed": record["seed"], **row}
        for record in records
        for row in record["methods"]
    )
    percent = [name for name in rows if name == "accuracy" or name.startswith("pavpu")]
    rows[percent] = 100 * rows[percent]
    return rows


def table_2(records, strength):
    """Return accuracy and PAvPU of samples at one strength, and the accuracy minus that of soft attention."""
    if not records:
        return NONE_YET
    rows = frame(records)
    rows = rows[(rows["method"] == "samples") & (rows["noise"] == strength)].set_index("seed")
    soft, lines = rows[rows["attention"] == SOFT]["accuracy"], []
    for name, own in rows.groupby("attention", sort=False):
        line = {"attention": name, "seeds": str(len(own)), "accuracy": interval(own["accuracy"])}
        line["minus soft"] = "-" if name == SOFT else interval(own["accuracy"] - soft, sign="+")
        line |= {f"PAvPU, {own_}": interval(own[f"pavpu {own_}"]) for own_ in THRESHOLDS}
        lines.append(line | {"nll": interval(own["nll"], 3), "ece": interval(own["ece"], 3)})
    return as_markdown(lines, text_columns=1)


def curve(records):
    """Return the accuracy of samples, and of one pass, by the strength of the noise."""
    if not records:
        return NONE_YET
    lines = []
    for (name, method), own in frame(records).groupby(["attention", "method"], sort=False):
        values = {f"{noise:g}": interval(own[own["noise"] == noise]["accuracy"]) for noise in STRENGTHS}
        lines.append({"attention": name, "method": method, **values})
    return as_markdown(lines, text_columns=2)


def parts(records):
    """Return the generated parts of the page by marker."""
    return {"original": table_2(records, 0.0), "noisy": table_2(records, NOISY), "curve": curve(records)}
