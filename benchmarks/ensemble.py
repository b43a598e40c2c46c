"""Deep ensembles of the study: the plain models of several seeds together, from what their records say."""

import numpy as np

from hf_bam.evaluation import metrics
from hf_bam.evaluation.comparison import measure
from hf_bam.evaluation.temperature import apply_temperature, fit_temperature
from hf_bam.tasks import get_task

MEMBERS = 5


def ensembles(found):
    """A record as a cell would write it for each task that has enough plain models."""
    tasks = dict.fromkeys(record["task"] for record in found)
    for task in tasks:
        members = [r for r in found if (r["task"], r["training"]) == (task, "plain") and "predictions" in r]
        if len(members) >= MEMBERS:
            yield together(task, members[:MEMBERS])


def together(task, members):
    """The mean of the members' predictions, once as it is and once with a temperature that held-out rows choose."""
    drawn = {
        name: np.array([member["predictions"][name]["probabilities"] for member in members])  # (S, B, C)
        for name in members[0]["predictions"]
    }
    labels = {name: np.array(members[0]["predictions"][name]["labels"]) for name in ("own", "holdout")}
    temperature = fit_temperature(labels["holdout"], drawn["holdout"])
    seconds = sum(member["methods"][0]["seconds"] for member in members)
    rows = []
    for end, degree in {"": 1.0, " + temperature": temperature}.items():
        own = apply_temperature(drawn["own"], degree)
        row = {"method": f"ensemble of {len(members)}{end}", **measure(labels["own"], own)}
        doubt = metrics.predictive_entropy(own)
        if "strange" in drawn:
            row["ood_auroc"] = metrics.ood_auroc(
                doubt, metrics.predictive_entropy(apply_temperature(drawn["strange"], degree))
            )
        if "disagreement" in members[0]:
            row["disagreement"] = metrics.spearman(members[0]["disagreement"], doubt)
        guesses = own.mean(axis=0).argmax(axis=-1).tolist()
        scores = get_task(task).measure(labels["own"].tolist(), guesses)
        row |= {f"score_{name}": value for name, value in scores.items()}
        rows.append({**row, "draws": float(len(members)), "seconds": seconds})
    return {
        "task": task,
        "training": "ensemble",
        "seed": 0,
        "methods": rows,
        "rows": len(labels["own"]),
        "training_seconds": sum(member["training_seconds"] for member in members),
    }
