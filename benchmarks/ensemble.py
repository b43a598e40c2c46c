"""Deep ensembles of the study: the plain models of several seeds together, from the predictions of their cells."""

from pathlib import Path

import numpy as np

from hf_bam import metrics
from hf_bam.comparison import measure
from hf_bam.tasks import get_task
from hf_bam.training.temperatures import as_results

MEMBERS = 5


def record(task, output):
    """As a cell would say it, or None where there are too few plain models that classify."""
    files = [Path(output, task, "plain", f"seed-{seed}", "samples.npz") for seed in range(MEMBERS)]
    if not all(file.exists() for file in files):
        return None
    members = [np.load(file) for file in files]
    drawn = {
        which: np.concatenate([member[f"{which}/plain"] for member in members]).astype(float)
        for which in ("own", "strange")
        if f"{which}/plain" in members[0]
    }
    own = drawn["own"]
    labels = members[0]["labels"].astype(int)
    row = {"method": f"ensemble of {MEMBERS}", **measure(as_results(own), labels), "draws": float(MEMBERS)}
    if "strange" in drawn:
        row["ood_auroc"] = metrics.ood_auroc(*map(metrics.predictive_entropy, drawn.values()))
    guesses = own.mean(axis=0).argmax(axis=-1).tolist()
    row |= {f"score_{name}": value for name, value in get_task(task).measure(labels.tolist(), guesses).items()}
    return {"task": task, "training": "ensemble", "seed": 0, "methods": [row], "rows": len(labels)}
