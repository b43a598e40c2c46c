"""Tables and plots of the study on real tasks, from results/study.jsonl into docs/results.md."""

from pathlib import Path

import pandas as pd
from ensemble import ensembles
from paired import OTHERS, TOKENS, difference_table, differences, pair_table, plot, rank_table, signed
from render import fill, markdown, save
from render import rows as rows_of
from study import records

DOCS = Path(__file__).parent.parent / "docs"
SCORES = {"cola": "score_matthews", "mrpc": "score_f1", "sts-b": "pearson", "squad": "f1", "translation": "bleu"}
COSTS = {"training": "training_seconds", "memory": "peak_megabytes"}
TRAINED = ("mean", "draws", "draws and dropout")
KL_WEIGHTS, SHOWN = (0, 0.0001, 0.001, 0.01, 1), (20, 5, 1)
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


def frame(found):
    """A row for each method of each cell. Costs are relative to plain with the same seed."""
    plain = {(r["task"], r["seed"]): r for r in found if r["training"] == "plain"}
    rows = []
    for record in found:
        base = plain.get((record["task"], record["seed"]), {})
        costs = {f"{name} / plain": ratio(record, base, key) for name, key in COSTS.items()}
        for row in record.get("methods", []):
            name = (
                row["method"]
                if record["training"] in ("plain", "ensemble")
                else f"{record['training']}, {row['method']}"
            )
            score = row.get(SCORES.get(record["task"], "accuracy"))
            own = {"task": record["task"], "seed": record["seed"], "method": name, "score": score, **costs}
            first = next(iter(base.get("methods", [{}])))
            rows.append({**row, **own, "prediction / plain": ratio(row, first, "seconds")})
    return pd.DataFrame(rows)


def score_rows(found):
    """Scores of single predictions on whole sets: a row for each set, metric, training and seed."""
    rows = [
        (r["task"], name, metric, r["training"], r["seed"], value)
        for r in found
        for name, scores in r.get("scores", {}).items()
        for metric, value in scores.items()
        if name != "holdout" and metric != "total"
    ]
    return pd.DataFrame(rows, columns=["task", "set", "metric", "method", "seed", "value"])


def score_table(rows):
    """Mean and standard deviation over seeds: a line for each set and metric, a column for each training."""
    return by_set(rows, lambda own: {name: cell(seeds["value"]) for name, seeds in own.groupby("method", sort=False)})


def gain_table(rows):
    """The same, minus plain with the same seed, where there are enough seeds."""
    return by_set(rows, lambda own: {name: signed(gain) for name, gain in differences(own, "value").items()})


def by_set(rows, fill_in):
    groups = {key: fill_in(own) for key, own in rows.groupby(["task", "set", "metric"], sort=False)}
    names = list(dict.fromkeys(name for entries in groups.values() for name in entries))
    lines = [[*key, *(entries.get(name, "-") for name in names)] for key, entries in groups.items() if entries]
    return markdown(["task", "set", "metric", *names], lines)


def ratio(record, base, key):
    return record[key] / base[key] if record.get(key) and base.get(key) else None


def cell(values):
    values = values.dropna()
    if values.empty:
        return "-"
    spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def task_table(rows):
    """Mean and standard deviation over seeds."""
    names = [name for name in MEASURES if name in rows and rows[name].notna().any()]
    lines = []
    for method, own in rows.groupby("method", sort=False):
        lines.append([method, own["seed"].nunique(), *(cell(own[name]) for name in names)])
    return markdown(["method", "seeds", *names], lines)


def choice_table(found):
    """NLL of the held-out rows, mean over seeds: of a plain model without noise, and with every strength of it."""
    rows = []
    for record in found:
        held_out = record.get("held_out", {})
        for method, about in held_out.items():
            if "1.0" in about["nll by strength"]:
                about = {"no noise": held_out["plain"]["nll"], **about["nll by strength"]}
                rows.append({"task": record["task"], "training": record["training"], "method": method, **about})
    if not rows:
        return ""
    table = pd.DataFrame(rows).groupby(["task", "training", "method"], sort=False).mean()
    lines = [[*key, *(f"{value:.3f}" for value in row)] for key, row in table.iterrows()]
    names = [f"k = {float(name):g}" if name != "no noise" else name for name in table]
    return markdown([*table.index.names, *names], lines)


def screen_table(found):
    """What the trainings reach on the rows that choose between them: mean over seeds, and standard deviation."""
    rows = []
    for record in found:
        about = record.get("held_out", {})
        one, drawn, both = ("plain", "MC dropout", "") if "plain" in about else TRAINED
        if drawn in about:
            rows.append(
                {
                    "task": record["task"],
                    "training": record["training"],
                    "accuracy": about[one]["accuracy"],
                    "nll, one prediction": about[one]["nll"],
                    "one + temperature": about[one]["nll + temperature"],
                    "draws": about[drawn]["nll"],
                    "draws + temperature": about[drawn]["nll + temperature"],
                    "draws and dropout": about.get(both, {}).get("nll"),
                    "error_auroc, one prediction": about[one]["error_auroc"],
                    "error_auroc, draws": about[drawn]["error_auroc"],
                    "epistemic": about[drawn]["epistemic"],
                }
            )
    if not rows:
        return ""
    table = pd.DataFrame(rows).sort_values("task", kind="stable")
    names = list(table)[2:]
    lines = [
        [*key, len(own), *(cell(own[name]) for name in names)]
        for key, own in table.groupby(["task", "training"], sort=False)
    ]
    return markdown(["task", "training", "seeds", *names], lines)


def objective_table(found):
    """The k at which the loss of training rows is smallest, by the weight of the KL."""
    rows = [
        {"task": record["task"], "training": record["training"], **row}
        for record in found
        for row in record.get("objective", [])
    ]
    if not rows:
        return ""
    lines = []
    for key, own in pd.DataFrame(rows).groupby(["task", "training"], sort=False):
        means = own.groupby("k").mean(numeric_only=True)
        best = [(means["task_loss"] + weight * means["kl"]).idxmin() for weight in KL_WEIGHTS]
        losses = [f"{means['task_loss'].loc[k]:.3f} / {means['kl'].loc[k]:.2f}" for k in SHOWN]
        lines.append([*key, *losses, *(f"{k:g}" for k in best)])
    header = [*(f"loss / KL, k = {k}" for k in SHOWN), *(f"best k, KL x {weight}" for weight in KL_WEIGHTS)]
    return markdown(["task", "training", *header], lines)


def spread_table(tried):
    """How far draws move the log odds of a plain model, and what that does to its predictions."""
    about = ("method", "layers", "k", "rate")
    measures = ("logit_deviation", "accuracy", "nll", "nll_with_temperature", "ece", "error_auroc", "epistemic")
    lines = [[*(row.get(name, "-") for name in about), *(f"{row[name]:.3f}" for name in measures)] for row in tried]
    return markdown([*about, *measures], lines)


def cost_table(rows):
    """Medians over all cells, relative to plain: a training, its memory, and the prediction of a set."""
    names = [name for name in rows if name.endswith("/ plain")]
    lines = [
        [method, *(f"{own[name].median():.2f}" if own[name].notna().any() else "-" for name in names)]
        for method, own in rows[~rows["method"].str.endswith("temperature")].groupby("method", sort=False)
    ]
    return markdown(["method", *names], lines)


def by_task(rows, table):
    """The table of each task that has one."""
    tables = {task: table(own) for task, own in rows.groupby("task", sort=False)}
    return "\n\n".join(f"#### {task}\n\n{text}" for task, text in tables.items() if text)


def main(options):
    found = records(options.records)
    found += list(ensembles(found))
    rows, scores = frame(found), score_rows(found)
    classes = rows[rows["nll"].notna()]
    others = rows[rows["nll"].isna()]
    parts = {
        "scores": score_table(scores),
        "gains": gain_table(scores),
        "tasks": by_task(rows, task_table),
        "pairs": pair_table(classes),
        "others": by_task(others, lambda own: pair_table(own, OTHERS)),
        "differences": difference_table(classes),
        "ranks": rank_table(classes),
        "screen": screen_table(found),
        "choice": choice_table(found),
        "objective": objective_table(found),
        "spread": spread_table(rows_of("spread")),
        "costs": cost_table(rows),
    }
    fill(DOCS / "results.md", parts)
    (DOCS / "images").mkdir(exist_ok=True)
    save(plot(classes), DOCS / "images" / "study.svg")
