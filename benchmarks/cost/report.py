"""Tables and figure of the cost benchmarks in the documentation."""

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from hf_bam.evaluation.plots.style import styled
from hf_bam.evaluation.tables import as_markdown

from ..storage import read


def rows_of(name):
    return read(name)["rows"]


def machine():
    """Return one line about the machine of the speed benchmark."""
    found = read("speed")
    versions = f"torch {found['torch']}, transformers {found['transformers']}"
    return f"{found['processor']}, {found['threads']} threads, {versions}."


def speed_table():
    """Return seconds of the first kind of attention, and the ratios of the others to it: median and quartiles."""
    lines = []
    for row in rows_of("speed"):
        (first, (_, base, _)), *_ = row["seconds"].items()
        for kind, (low, median, high) in list(row["ratio"].items())[1:]:
            lines.append(
                {
                    "benchmark": f"{row['what']}, {row['model']}, {row['batch']} x {row['tokens']}",
                    "compared": f"{kind} / {first}",
                    "seconds of the latter": f"{base:.2f}",
                    "ratio": f"{median:.2f} ({low:.2f} to {high:.2f})",
                    "target": str(row["target"].get(kind) or ""),
                }
            )
    return as_markdown(lines, text_columns=2)


def compiled_table():
    """Return ratios of compiled training steps: processor time with quartiles, and peak memory."""
    lines = []
    for row in rows_of("compiled"):
        ratio = row["ratio"]["BAM"]
        step = f"{row['model']}, {row['batch']} x {row['tokens']}"
        if row["what"] == "memory":
            name, plain, found = "peak memory", f"{row['megabytes']['plain']['peak']} MB", f"{ratio:.2f}"
        else:
            low, median, high = ratio
            name, plain = "training step", f"{row['seconds']['plain'][1]:.2f} s"
            found = f"{median:.2f} ({low:.2f} to {high:.2f})"
        target = str(row["target"]["BAM"])
        lines.append({"benchmark": f"{name}, {step}", "plain": plain, "BAM / plain": found, "target": target})
    return as_markdown(lines)


def generation_table():
    """Return the speed of generation relative to the first kind of each row, median and quartiles."""
    lines = []
    for row in rows_of("generation"):
        if row["what"] == "generation":
            name = f"{row['model']}, {'greedy' if row['beams'] == 1 else str(row['beams']) + ' beams'}"
        else:
            name = f"{row['number']} hypotheses, {row['model']}, source of {row['source']} tokens"
        first, *others = row["ratio"]
        for kind in others:
            low, median, high = (1 / ratio for ratio in reversed(row["ratio"][kind]))
            found = f"{median:.2f} ({low:.2f} to {high:.2f})"
            target = f"{1 / row['target'][kind]:.2f}" if kind in row.get("target", {}) else ""
            lines.append({"generation": name, "compared": f"{kind} / {first}", "speed": found, "target": target})
    return as_markdown(lines, text_columns=2)


def startup_table():
    """Return seconds of the import after others, and of the command line's help."""
    return as_markdown(
        [
            {
                "what": row["after"] if row["after"].startswith("hf-bam") else f"`import hf_bam` after {row['after']}",
                "seconds": "{1:.2f} ({0:.2f} to {2:.2f})".format(*row["seconds"]),
                "target": "" if row["target"] is None else f"{row['target']:.1f}",
            }
            for row in rows_of("startup")
        ]
    )


def memory_table():
    """Return peak megabytes of a training step."""
    (step,) = (row for row in rows_of("memory") if row["what"] == "training step")
    return as_markdown(
        [
            {"attention": kind, "peak, MB": peak["peak"], "relative to plain": f"{step['ratio'][kind]:.2f}"}
            for kind, peak in step["megabytes"].items()
        ]
    )


def attention_table():
    """Return the time of attention alone, forward and backward, relative to plain attention: median and quartiles."""
    lines = []
    for row in rows_of("scaling"):
        if row["by"] == "tokens" and "ratio" in row:
            plain = f"{1000 * row['seconds']['plain'][1]:.1f} ms"
            ratios = {name: row["ratio"][name] for name in ("BAM", "BAM, k=5", "BAM, causal")}
            found = {name: f"{median:.2f} ({low:.2f} to {high:.2f})" for name, (low, median, high) in ratios.items()}
            lines.append({"tokens": str(row["tokens"]), "plain": plain, **found, "target": str(row["target"]["BAM"])})
    return as_markdown(lines)


def exponent_table():
    """Return the exponents with which time grows: of attention in the tokens, of predictions in the samples."""
    lines = []
    for row in rows_of("scaling"):
        if "exponent" in row:
            attention = f"attention, forward and backward, {row.get('attention')}"
            about = attention if row["by"] == "tokens" else "prediction, BERT-base"
            size = "tokens, from 512" if row["by"] == "tokens" else row["by"]
            lines.append({"benchmark": about, "size": size, "exponent": str(row["exponent"])})
    return as_markdown(lines, text_columns=2)


def layer_table():
    """Return the time of a training step by the number of stochastic layers."""
    (ratios,) = (row["ratio"] for row in rows_of("scaling") if row["by"] == "layers")
    return as_markdown(
        [
            {"stochastic layers": f"{count} of 12", "training step relative to plain": f"{quartiles[1]:.2f}"}
            for count, quartiles in ratios.items()
            if count != "0"
        ]
    )


def batched_table():
    """Return the speedup of batched sampling over separate passes."""
    return as_markdown(
        [
            {
                "stochastic layers": "all" if row["layers"] == "all" else f"last {row['layers']}",
                "inputs x tokens": f"{row['inputs']} x {row['tokens']}",
            }
            | {name: f"{speedup:.2f}" for name, speedup in row["speedup"].items() if name != "separate passes"}
            for row in rows_of("predict")
        ],
        text_columns=2,
    )


def points(rows, name, value):
    """Return points (tokens, value) by kind of attention."""
    found = {}
    for row in rows:
        for kind, entry in row.get(name, {}).items():
            found.setdefault(kind, []).append((row["tokens"], value(entry)))
    return found


def plot_lines(axes, lines, title, xlabel, ylabel):
    for name, line in lines.items():
        axes.plot(*zip(*line, strict=True), marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", title=title, xlabel=xlabel, ylabel=ylabel)
    axes.set_xticks([x for x, _ in next(iter(lines.values()))])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def cost_figure():
    """Return time and memory of attention by tokens, and time of a prediction by samples."""
    scaling = rows_of("scaling")
    (by_samples,) = (row["seconds"] for row in scaling if row["by"] == "samples" and "seconds" in row)
    prediction = {"BERT-base, 128 tokens": [(int(n), quartiles[1]) for n, quartiles in by_samples.items()]}
    seconds = points((row for row in scaling if row["by"] == "tokens"), "seconds", lambda quartiles: quartiles[1])
    attention = (row for row in rows_of("memory") if row["what"] == "attention")
    megabytes = points(attention, "megabytes", lambda memory: max(memory["rise"], 0.1))
    with styled():
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        plot_lines(left, seconds, "Attention, forward and backward", "tokens", "seconds")
        plot_lines(middle, megabytes, "Memory of attention", "tokens", "megabytes")
        plot_lines(right, prediction, "Prediction", "samples", "seconds")
        left.legend()
        right.legend()
    return figure


def pages():
    cost = {
        "machine": machine(),
        "speed": speed_table(),
        "memory": memory_table(),
        "compiled": compiled_table(),
        "generation": generation_table(),
        "startup": startup_table(),
        "attention": attention_table(),
        "exponents": exponent_table(),
        "layers": layer_table(),
    }
    return {"speed.md": cost, "guides/prediction.md": {"batched": batched_table()}}


def figures():
    return {"cost.svg": cost_figure()}
