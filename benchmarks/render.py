"""Tables and plots of the cost studies, from their results, into the documentation.

python benchmarks/render.py docs    # the tables of speed.md, and images/cost.svg
"""

import json
import re
import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from hf_bam.evaluation.plots.style import styled

RESULTS = Path(__file__).parent / "results"


def rows(study):
    return json.loads((RESULTS / f"{study}.json").read_text(encoding="utf-8"))["rows"]


def machine():
    """Where the speed was measured."""
    about = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))
    versions = f"torch {about['torch']}, transformers {about['transformers']}"
    return f"{about['processor']}, {about['threads']} threads, {versions}."


def markdown(header, lines):
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (header, rule, *lines))


def save(figure, path):
    """Writes the same file for the same figure."""
    with rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None})


def speed_table():
    """Seconds of the first competitor, and what the others cost relative to it: median and quartiles."""
    lines = []
    for row in rows("speed"):
        (first, (_, base, _)), *_ = row["seconds"].items()
        for kind, (low, median, high) in list(row["ratio"].items())[1:]:
            what = f"{row['what']}, {row['model']}, {row['batch']} x {row['tokens']}"
            target = row["to reach"].get(kind) or ""
            lines.append((what, f"{kind} / {first}", f"{base:.2f}", f"{median:.2f} ({low:.2f} to {high:.2f})", target))
    return markdown(("what", "which", "seconds of the latter", "ratio", "to reach"), lines)


def memory_table():
    """Peak megabytes of a training step."""
    (step,) = (row for row in rows("memory") if row["what"] == "training step")
    lines = [(kind, peak["peak"], f"{step['ratio'][kind]:.2f}") for kind, peak in step["megabytes"].items()]
    return markdown(("attention", "peak, MB", "times plain"), lines)


def growth_table():
    """How fast time grows: the exponent of attention alone with the length, of predictions with the draws."""
    scaling = rows("scaling")
    lines = [
        (f"attention and its gradient, {row['way']}", "tokens, from 512 on", row["exponent"])
        for row in scaling
        if "way" in row
    ]
    lines += [
        ("prediction, BERT-base", row["against"], row["exponent"])
        for row in scaling
        if row["against"] == "draws" and "exponent" in row
    ]
    (layers,) = (row["ratio"] for row in scaling if row["against"] == "layers")
    lines += [
        (f"training step, {count} of 12 layers stochastic", "", f"{quartiles[1]:.2f} times plain")
        for count, quartiles in layers.items()
        if count != "0"
    ]
    return markdown(("what", "against", "exponent"), lines)


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


def fill(page, tables):
    """Puts tables between the comments of a page that name them."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        between = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = between.subn(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
        if count != 1:
            raise ValueError(f"{page} has {count} places for the table {name!r}; expected one.")
    page.write_text(text, encoding="utf-8")


def main():
    docs = Path(sys.argv[1])
    (docs / "images").mkdir(parents=True, exist_ok=True)
    fill(
        docs / "speed.md",
        {"machine": machine(), "speed": speed_table(), "memory": memory_table(), "growth": growth_table()},
    )
    save(cost_plot(), docs / "images" / "cost.svg")


if __name__ == "__main__":
    main()
