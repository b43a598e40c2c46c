"""Records of the study as data frames."""

import pandas as pd

SCORES = {"cola": "score_matthews", "mrpc": "score_f1", "sts-b": "pearson", "squad": "f1", "translation": "bleu"}
"""Measure that is the score of a task; accuracy for the others."""
COSTS = {"training": "training_seconds", "memory": "peak_megabytes"}
UNPREFIXED = ("plain", "ensemble")
"""Configurations whose methods have names of their own."""


def method_rows(records):
    """Return a row for each method of each run. Costs are relative to plain with the same task and seed."""
    plain = {(r["task"], r["seed"]): r for r in records if r["configuration"] == "plain"}
    rows = []
    for record in records:
        task, configuration, seed = (record[name] for name in ("task", "configuration", "seed"))
        base = plain.get((task, seed), {})
        first = next(iter(base.get("methods", [{}])))
        costs = {f"{name} / plain": ratio(record, base, key) for name, key in COSTS.items()}
        for row in record.get("methods", []):
            method = row["method"]
            name = method if configuration in UNPREFIXED else f"{configuration}, {method}"
            identity = {"task": task, "seed": seed, "method": name, "score": row.get(SCORES.get(task, "accuracy"))}
            rows.append({**row, **identity, **costs, "prediction / plain": ratio(row, first, "seconds")})
    return pd.DataFrame(rows)


def ratio(record, base, key):
    return record[key] / base[key] if record.get(key) and base.get(key) else None


def score_rows(records):
    """Return the scores of single predictions on whole sets: a row for each set, metric, configuration and seed."""
    rows = [
        (record["task"], name, metric, record["configuration"], record["seed"], value)
        for record in records
        for name, scores in record.get("scores", {}).items()
        for metric, value in scores.items()
        if name != "holdout" and metric != "total"
    ]
    return pd.DataFrame(rows, columns=["task", "set", "metric", "method", "seed", "value"])
