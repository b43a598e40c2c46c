"""Tables and plots of the cost studies, from their results.

python benchmarks/render.py docs/images    # prints the tables in Markdown, writes cost.svg
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from hf_bam.plots.style import styled

RESULTS = Path(__file__).parent / "results"


def rows(study):
    return json.loads((RESULTS / f"{study}.json").read_text(encoding="utf-8"))["rows"]


def markdown(header, lines):
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (header, rule, *lines))


def speed_table():
    """Seconds of plain attention, and what the others cost relative to it: median and quartiles."""
    lines = []
    for row in rows("speed"):
        for kind, (low, median, high) in row["ratio"].items():
            if kind != "plain":
                what = f"{row['what']}, {row['model']}, {row['batch']} x {row['tokens']}"
                target = row["to reach"].get(kind)
                plain = row["seconds"]["plain"][1]
                lines.append((what, kind, f"{plain:.2f}", f"{median:.2f} ({low:.2f} to {high:.2f})", target or ""))
    return markdown(("what", "attention", "plain, s", "times plain", "to reach"), lines)


def memory_table():
    """Peak megabytes of a training step."""
    (step,) = (row for row in rows("memory") if row["what"] == "training step")
    lines = [(kind, peak["peak"], f"{step['ratio'][kind]:.2f}") for kind, peak in step["megabytes"].items()]
    return markdown(("attention", "peak, MB", "times plain"), lines)


def exponent_table():
    """How fast the time of attention alone grows with the length of the text."""
    lines = [(row["way"], row["exponent"]) for row in rows("scaling") if "way" in row]
    return markdown(("attention", "exponent of n"), lines)


def by_way(table, value):
    """Points (tokens, value) of each way of attention."""
    points = {}
    for row in table:
        for way, entry in row.get("seconds" if value is seconds else "megabytes", {}).items():
            points.setdefault(way, []).append((row["tokens"], value(entry)))
    return points


def seconds(entry):
    return entry[1]


def megabytes(entry):
    return max(entry["rise"], 0.1)


def draw_lines(axes, points, title, xlabel, ylabel):
    for name, line in points.items():
        axes.plot(*zip(*line, strict=True), marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", title=title, xlabel=xlabel, ylabel=ylabel)
    axes.set_xticks([x for x, _ in next(iter(points.values()))])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def cost_plot():
    """Time and memory of attention against n, and time of prediction against draws."""
    scaling, memory = rows("scaling"), rows("memory")
    (draws,) = (row["seconds"] for row in scaling if row["against"] == "draws" and "seconds" in row)
    points = {"BERT-base, 128 tokens": [(int(n), quartiles[1]) for n, quartiles in draws.items()]}
    with styled():
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        time, space, samples = figure.subplots(1, 3)
        lengths = [row for row in scaling if row["against"] == "tokens" and "seconds" in row]
        draw_lines(time, by_way(lengths, seconds), "Attention and its gradient", "tokens", "seconds")
        lengths = [row for row in memory if row["what"] == "attention"]
        draw_lines(space, by_way(lengths, megabytes), "Memory it needs", "tokens", "megabytes")
        draw_lines(samples, points, "Prediction", "draws", "seconds")
        time.legend(frameon=False)
        samples.legend(frameon=False)
    return figure


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(speed_table(), memory_table(), exponent_table(), sep="\n\n")
    cost_plot().savefig(folder / "cost.svg")


if __name__ == "__main__":
    main()
