"""One cell of the study: a training on a task with a seed, and what its predictors say. A process of its own.

python benchmarks/cell.py FOLDER SPEC    # SPEC is JSON, as study.py makes it; writes FOLDER/record.json
"""

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import hf_bam
from hf_bam import metrics
from hf_bam.prediction import Dropout, Predictor, Regression
from hf_bam.prediction.calibration import best_temperature
from hf_bam.tasks import get_task
from hf_bam.tasks.squad import read
from hf_bam.training.doubt import make_predictors, regression, with_entropy
from hf_bam.training.evaluation import some_rows
from hf_bam.training.results import write_json
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve
from hf_bam.training.temperatures import with_temperatures

RATES = (0.02, 0.05, 0.1, 0.2)
DRAWS_TO_TUNE, ROWS_TO_TUNE = 8, 200
STRANGE = "strange"


def main():
    folder, spec = Path(sys.argv[1]), json.loads(sys.argv[2])
    strange, own = spec.pop(STRANGE, None), spec.pop("own", None)
    job = resolve(spec)
    process = Run(replace(job, recipe=job.recipe.replace(samples=0)), folder, (), print)
    result = process.go(resume=True, report=False, hub_model_id=None)
    task, data = process.task, process.load()
    model, tokenizer = task.build(str(folder / "model"), data)
    if job.attention == "bam":
        hf_bam.load(model, folder / "model")
    record = {"scores": result.scores, "training_seconds": result.about["seconds"], "steps": result.about["steps"]}
    own = own or next(name for name in data.evaluation if name != "holdout")
    if task.labels(data.evaluation[own]) is None:
        rows = some_rows(data.evaluation[own], job.recipe.doubt_rows)
        record["methods"] = list(others(job, task, model, tokenizer, rows, strange))
    else:
        data = apart(data, own, strange, job.data_dir)
        record |= classification(job, task, model, tokenizer, data, own, folder)
    record["peak_megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    write_json(folder / "record.json", record)


def others(job, task, model, tokenizer, rows, strange):
    """A row for each method where predictions are numbers or texts. Strange questions are those without an answer."""
    unanswerable = None
    if strange is not None:
        asked = read(Path(job.data_dir, strange[1]), "2.0")
        silent = asked.select([i for i, answers in enumerate(asked["answers"]) if not answers["text"]])
        unanswerable = task.inputs(some_rows(silent, len(rows)))
    for name, predictor in make_predictors(task, model, tokenizer, job.recipe).items():
        start = time.perf_counter()
        results = predictor(task.inputs(rows))
        row = {"method": name, "seconds": time.perf_counter() - start}
        row |= (regression if isinstance(results[0], Regression) else with_entropy)(task, rows, results)
        if unanswerable:
            doubts = [[result.entropy for result in part] for part in (results, predictor(unanswerable))]
            row["ood_auroc"] = metrics.ood_auroc(*doubts)
        yield row


def apart(data, own, strange, data_dir):
    """The data with rows of another domain in the set `strange`, out of the evaluation set if they are in it."""
    if strange is None:
        others = [name for name in data.evaluation if name not in ("holdout", "validation", "test", own)]
        rows = [some_rows(data.evaluation[name], 200) for name in others]
        texts = [text for part in rows for text in part["sentence1"]]
    elif strange[1].endswith(".tsv"):
        lines = Path(data_dir, strange[1]).read_text(encoding="utf-8").splitlines()
        texts = [line.split("\t")[-1] for line in lines]
        known = set(texts)
        rows = data.evaluation[own]
        data.evaluation[own] = rows.select([i for i, text in enumerate(rows["sentence1"]) if text not in known])
    else:
        other = get_task(strange[0])
        texts = other.inputs(other.load(Path(data_dir)).evaluation[strange[1]])
    data.test = {STRANGE: texts}
    return data


def classification(job, task, model, tokenizer, data, own, folder):
    """All measures of all methods, with dropout rate and temperatures from the rows that were held out."""
    recipe = job.recipe
    held_out = some_rows(data.evaluation["holdout"], recipe.doubt_rows)
    rows = some_rows(data.evaluation[own], recipe.doubt_rows)
    predictors = make_predictors(task, model, tokenizer, recipe)
    chosen = {}
    if job.attention == "plain":
        rates = {
            rate: Predictor(Dropout(model, rate=rate), tokenizer, DRAWS_TO_TUNE, max_length=recipe.max_length)
            for rate in RATES
        }
        some = some_rows(held_out, ROWS_TO_TUNE)
        tried = hf_bam.compare(rates, task.inputs(some), task.labels(some))
        chosen["dropout"] = min(tried.table, key=lambda row: row["nll"])["method"]
        drawing = Predictor(
            Dropout(model, rate=chosen["dropout"]), tokenizer, recipe.samples, max_length=recipe.max_length
        )
        predictors = {name: one if name == "plain" else drawing for name, one in predictors.items()}
    fitting = hf_bam.compare(predictors, task.inputs(held_out), task.labels(held_out))
    temperatures = {
        name: best_temperature(outcome.samples, fitting.labels) for name, outcome in fitting.outcomes.items()
    }
    strange = data.test[STRANGE][: recipe.doubt_rows] or None
    found = hf_bam.compare(predictors, task.inputs(rows), task.labels(rows), out_of_domain=strange)
    found = with_temperatures(found, temperatures)
    for row in found.table:
        samples = found.outcomes[row["method"]].samples
        guesses = samples.mean(axis=0).argmax(axis=-1).tolist()
        row |= {f"score_{name}": value for name, value in task.score(rows, guesses).items()}
        if "disagreement" in rows.column_names:
            row["disagreement"] = metrics.spearman(metrics.predictive_entropy(samples), rows["disagreement"])
    arrays = {"labels": found.labels, "held_out_labels": fitting.labels}
    for name in predictors:
        arrays |= {f"own/{name}": found.outcomes[name].samples, f"holdout/{name}": fitting.outcomes[name].samples}
        if found.out_of_domain is not None:
            arrays[f"strange/{name}"] = found.out_of_domain[name].samples
    np.savez_compressed(folder / "samples.npz", **{name: np.asarray(x, np.float32) for name, x in arrays.items()})
    return {
        "methods": found.table,
        "chosen": {**chosen, "temperatures": temperatures},
        "held_out_nll": {row["method"]: row["nll"] for row in fitting.table},
        "rows": len(rows),
    }


if __name__ == "__main__":
    main()
