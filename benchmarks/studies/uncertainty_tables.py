"""Tables of the study of everything that a user can do about uncertainty."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .frames import method_rows
from .graph_tables import NONE_YET, interval
from .paired import ENOUGH_SEEDS, differences, mean_of_means

MAIN = "clinc150"
PLAIN = "plain"
SCORES = {
    "clinc150": ("validation", "test", "accuracy"),
    "sentiment": ("holdout", "test", "accuracy"),
    "sst-2": ("holdout", "dev", "accuracy"),
    "cola": ("holdout", "dev", "matthews"),
    "mrpc": ("holdout", "dev", "f1"),
    "sts-b": ("holdout", "dev", "pearson"),
}
"""Held-out set, evaluation set and metric of each task."""
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
NUMBERS = {
    "passes": 0,
    "pearson": 3,
    "crps": 3,
    "sample_coverage": 3,
    "interval_coverage": 3,
    "interval_width": 2,
    "interval_coverage_of_halves": 3,
    "error_spearman": 3,
}
"""Measures of a regression."""
DOMAINS = ("products", "news", "tweets")
SHIFT = {"accuracy": 3, "nll": 3, "ece": 3, "error_auroc": 3, "novelty": 3}
"""Measures of a labelled set of another distribution; the last one is the AUROC of the novelty."""
CURVE = {"nll": 3, "error_auroc": 3, "ood_auroc": 4}
CONSISTENT = "plain, consistency"
AVERAGED = "plain, tail"
PAIRS = (
    (f"{AVERAGED}, plain", "plain"),
    (f"{AVERAGED}, plain + temperature", "plain + temperature"),
    (f"{AVERAGED}, checkpoints", "plain"),
    (f"{AVERAGED}, checkpoints + temperature", "plain + temperature"),
    (f"{CONSISTENT}, plain", "plain"),
    (f"{CONSISTENT}, plain + temperature", "plain + temperature"),
    (f"{CONSISTENT}, MC dropout", "MC dropout"),
    (f"{CONSISTENT}, MC dropout + temperature", "MC dropout + temperature"),
    (f"{CONSISTENT}, plain + temperature", "MC dropout + temperature"),
    ("post-hoc weibull + temperature", "MC dropout + temperature"),
    ("post-hoc multinomial + temperature", "MC dropout + temperature"),
    ("post-hoc weibull + temperature", "plain + temperature"),
    ("BAM, samples + temperature", "MC dropout + temperature"),
    ("BAM, mean", "plain"),
)
"""Methods that are compared, and the reference of each."""
PAIRED = {"accuracy": 4, "nll": 3, "ece": 4, "error_auroc": 3, "aurc": 4}


def of_task(records, task):
    return [record for record in records if record["task"] == task]


def method_table(records, measures, entry="methods"):
    """Return means over seeds with their 95 % intervals, by configuration and method; `entry` has the methods."""
    rows = pd.DataFrame(
        {"configuration": record["configuration"], "seed": record["seed"], **row}
        for record in records
        for row in record.get(entry, ())
    )
    if rows.empty:
        return NONE_YET
    lines = []
    for (configuration, method), own in rows.groupby(["configuration", "method"], sort=False):
        values = {name: interval(own[name], digits) for name, digits in measures.items() if name in own}
        lines.append({"training": configuration, "method": method, "seeds": str(len(own)), **values})
    return as_markdown(lines, text_columns=2)


def training_rows(records):
    """Return held-out score and score of each run that trains a model."""
    rows = []
    for record in records:
        if record["task"] in SCORES and "scores" in record:
            held_out, measured, metric = SCORES[record["task"]]
            about = {name: record[name] for name in ("task", "configuration", "seed", "steps")}
            scores = {"held-out score": held_out, "score": measured}
            rows.append(about | {name: record["scores"][own][metric] for name, own in scores.items()})
    return pd.DataFrame(rows)


def training_table(records):
    """Return the scores of one prediction by task and configuration, and minus plain training with the same seed.

    The last lines have the mean of the differences over all tasks with enough seeds.
    """
    rows = training_rows(records)
    if rows.empty:
        return NONE_YET
    keys, lines, groups = ("held-out score", "score"), [], {}
    plain = rows[rows["configuration"] == PLAIN].set_index(["task", "seed"])
    for (task, name), own in rows.groupby(["task", "configuration"], sort=False):
        own = own.set_index(["task", "seed"])
        line = {"task": f"{task}, {SCORES[task][-1]}", "training": name, "seeds": str(len(own))}
        line["steps"] = str(int(own["steps"].iloc[0]))
        for key in keys:
            difference = (own[key] - plain[key].reindex(own.index)).dropna()
            line[key] = interval(own[key], 4)
            line[f"{key} minus plain"] = "-" if name == PLAIN or difference.empty else interval(difference, 4, "+")
            if name != PLAIN and len(difference) >= ENOUGH_SEEDS:
                groups.setdefault(name, {}).setdefault(key, []).append(difference)
        lines.append(line)
    for name, found in groups.items():
        number = len(found["score"])
        if number > 1:
            means = {key: "{:+.4f} ± {:.4f}".format(*mean_of_means(found[key])) for key in keys}
            about = {"task": f"mean of {number} tasks", "training": name, "seeds": "", "steps": ""}
            lines.append(
                about | {name: text for key in keys for name, text in ((key, ""), (f"{key} minus plain", means[key]))}
            )
    return as_markdown(lines, text_columns=2)


def score_table(records):
    """Return the AUROC of each score of out-of-distribution inputs, in the deterministic model."""
    rows = pd.DataFrame(
        {"task": record["task"], "training": record["configuration"], **record["ood_scores"]}
        for record in records
        if "ood_scores" in record
    )
    if rows.empty:
        return NONE_YET
    lines = [
        {"task": task, "training": name, "seeds": str(len(own))}
        | {key: interval(own[key], 4) for key in own.columns[2:]}
        for (task, name), own in rows.groupby(["task", "training"], sort=False)
    ]
    return as_markdown(lines, text_columns=2)


def shift_table(records):
    """Return the measures of every method on the labelled sets of other domains."""
    tables = []
    for domain in DOMAINS:
        measures = {f"{domain}_{name}": digits for name, digits in SHIFT.items()}
        known = [record for record in records if any(f"{domain}_nll" in row for row in record["methods"])]
        tables += [f"### {domain}\n\n{method_table(known, measures).strip()}".replace(f"{domain}_", "")]
    return "\n\n".join(tables)


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


def pair_table(records):
    """Return the differences of `PAIRS`, paired by seed: means over the tasks in which both have enough seeds."""
    rows = method_rows(records)
    lines = []
    for method, reference in PAIRS if len(rows) else ():
        found = {name: differences(rows, name, reference).get(method) for name in PAIRED}
        if any(found.values()):
            tasks = next(own[-1] for own in found.values() if own)
            texts = {
                name: "-" if own is None else f"{own[0]:+.{PAIRED[name]}f} ± {own[1]:.{PAIRED[name]}f}"
                for name, own in found.items()
            }
            lines.append({"method": method, "minus": reference, "tasks": ", ".join(tasks), **texts})
    return as_markdown(lines, text_columns=3) if lines else NONE_YET


def parts(records):
    """Return the generated parts of the page by marker."""
    main, others = of_task(records, MAIN), [task for task in SCORES if task not in (MAIN, "sts-b")]
    tables = {task: method_table(of_task(records, task), METHODS) for task in others if of_task(records, task)}
    return {
        "training": training_table(records),
        "methods": method_table(main, METHODS),
        "one_pass": method_table(main, METHODS, "one_pass"),
        "joint": method_table(main, JOINT),
        "scores": score_table(records),
        "curve": curve_table(main),
        "pairs": pair_table(records),
        "tasks": "\n\n".join(f"### {task}\n\n{text.strip()}" for task, text in tables.items()) or NONE_YET,
        "regression": method_table(of_task(records, "sts-b"), NUMBERS),
        "shift": shift_table(of_task(records, "sentiment")),
    }
