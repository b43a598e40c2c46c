"""Deep ensembles of the study: the plain models of several seeds, from the predictions in their records."""

import numpy as np

from hf_bam.evaluation import metrics
from hf_bam.evaluation.comparison import measure
from hf_bam.evaluation.temperature import apply_temperature, fit_temperature
from hf_bam.tasks import get_task

MEMBERS = 5


def ensembles(records):
    """Yield a record, as that of a run, for each task with enough plain models."""
    for task in dict.fromkeys(record["task"] for record in records):
        members = [r for r in records if (r["task"], r["configuration"]) == (task, "plain") and "predictions" in r]
        if len(members) >= MEMBERS:
            yield ensemble(task, members[:MEMBERS])


def ensemble(task, members):
    """Return the record of the mean over the members, without and with a temperature that held-out rows select."""
    samples = {
        name: np.array([member["predictions"][name]["probabilities"] for member in members])  # (S, B, C)
        for name in members[0]["predictions"]
    }
    labels = {name: np.array(members[0]["predictions"][name]["labels"]) for name in ("evaluation", "holdout")}
    fitted = fit_temperature(labels["holdout"], samples["holdout"])
    seconds = sum(member["methods"][0]["seconds"] for member in members)
    rows = []
    for suffix, temperature in {"": 1.0, " + temperature": fitted}.items():
        scaled = {name: apply_temperature(part, temperature) for name, part in samples.items()}
        own, entropy = scaled["evaluation"], {name: metrics.predictive_entropy(part) for name, part in scaled.items()}
        row = {"method": f"ensemble of {len(members)}{suffix}", **measure(labels["evaluation"], own)}
        if "ood" in samples:
            row["ood_auroc"] = metrics.ood_auroc(entropy["evaluation"], entropy["ood"])
        if "disagreement" in members[0]:
            row["disagreement"] = metrics.spearman(members[0]["disagreement"], entropy["evaluation"])
        predictions = own.mean(axis=0).argmax(axis=-1).tolist()
        scores = get_task(task).measure(labels["evaluation"].tolist(), predictions)
        row |= {f"score_{name}": value for name, value in scores.items()}
        rows.append({**row, "passes": float(len(members)), "seconds": seconds})
    return {
        "task": task,
        "configuration": "ensemble",
        "seed": 0,
        "methods": rows,
        "rows": len(labels["evaluation"]),
        "training_seconds": sum(member["training_seconds"] for member in members),
    }
