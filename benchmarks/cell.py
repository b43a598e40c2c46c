"""One cell of the study: a training on a task with a seed, and what its predictors say. A process of its own.

python benchmarks/cell.py FOLDER SPEC    # SPEC is JSON, as study.py makes it; writes FOLDER/record.json
"""

import copy
import json
import math
import resource
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from others import DRAWS_TO_TUNE, others

import hf_bam
from hf_bam.evaluation import metrics
from hf_bam.evaluation.temperature import fit_temperature, with_temperatures
from hf_bam.prediction import Bam, Dropout, Plain
from hf_bam.prediction.samplers import dropouts
from hf_bam.tasks import get_task
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.evaluation import subsample
from hf_bam.training.results import write_json
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve
from hf_bam.training.uncertainty import USUAL_DROPOUT, make_predictor

RATES = (0.05, 0.1, 0.2)
SHAPES = (5.0, 2.0, 1.0, 0.5)
ROWS_TO_TUNE = 600
HELD_OUT = ("accuracy", "nll", "ece", "error_auroc", "epistemic")
BATCH, PASSES, ROWS_OF_OBJECTIVE = 32, 2, 400
STRANGE = "strange"
PROBED_SEED = 0
"""The seed of a training that also tries other noise than its own, and says what it would do to its loss."""


def main(folder, spec):
    strange, own, screened = (spec.pop(name, None) for name in (STRANGE, "own", "screen"))
    job = resolve(spec)
    process = Run(replace(job, recipe=job.recipe.replace(num_samples=0)), folder, (), print)
    result = process.go(resume=True, report=False, hub_model_id=None)
    cost = folder / "cost.json"
    if not cost.exists():  # else only the predictions are made again
        peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        write_json(cost, {"training_seconds": result.about["seconds"], "peak_megabytes": peak})
    task, data = process.task, process.load()
    model, tokenizer = task.build(str(folder / "model"), data)
    if job.attention == "bam":
        hf_bam.load(model, folder / "model")
    sets = ["holdout"] if screened else result.scores  # what is chosen by held-out rows says nothing of the others
    record = {"scores": {name: result.scores[name] for name in sets}, "steps": result.about["steps"]}
    record |= json.loads(cost.read_text(encoding="utf-8"))
    own = own or next(name for name in data.evaluation if name != "holdout")
    with torch.autocast("cpu", torch.bfloat16, enabled=job.recipe.precision == "bf16"):
        if task.labels(data.evaluation[own]) is not None:
            predictors, record["held_out"], first = tuned(job, task, model, tokenizer, data.evaluation["holdout"])
            if not screened:
                data = apart(data, own, strange, job.data_dir)
                record |= classification(job, task, predictors, record["held_out"], first, data, own)
        elif not screened:
            record["methods"] = others(job, task, methods(model, False), tokenizer, data.evaluation, own, strange)
    if "held_out" in record and job.attention == "bam" and job.seed == PROBED_SEED and not screened:
        record["objective"] = list(objective(job, task, model, tokenizer, data.train))
    write_json(folder / "record.json", record)


def apart(data, own, strange, data_dir):
    """The data with rows of another domain in the set `strange`, out of the evaluation set if they are in it."""
    if strange is None:
        others = [name for name in data.evaluation if name not in ("holdout", "validation", "test", own)]
        rows = [subsample(data.evaluation[name], 200) for name in others]
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


def tuned(job, task, model, tokenizer, rows):
    """A predictor for each method, how it does on rows that were held out, and what the first one said of them.

    They choose the strength of the noise, where a method has a choice, and the temperature.
    """
    rows, few = subsample(rows, ROWS_TO_TUNE), job.recipe.replace(num_samples=DRAWS_TO_TUNE)
    predictors, about, first = {}, {}, None
    for name, strengths in methods(model, probed=job.seed == PROBED_SEED).items():
        found = {}
        for strength, sampler in strengths.items():
            predictor = make_predictor(task, sampler, tokenizer, few)
            found[strength] = hf_bam.compare({name: predictor}, task.inputs(rows), task.labels(rows))
        nll = {strength: outcome.table[0]["nll"] for strength, outcome in found.items()}
        best = min(nll, key=nll.get)
        first = first or found[best]
        temperature = fit_temperature(found[best].labels, found[best].outcomes[name].samples)
        own, scaled = with_temperatures(found[best], {name: temperature}).table
        about[name] = {
            "best": best,
            "temperature": temperature,
            "nll by strength": {str(s): v for s, v in nll.items()},
        }
        about[name] |= {key: own[key] for key in HELD_OUT} | {"nll + temperature": scaled["nll"]}
        predictors[name] = make_predictor(task, strengths[best], tokenizer, job.recipe)
    return predictors, about, first


def classification(job, task, predictors, held_out, first, data, own):
    """All measures of all methods, with the temperatures that the rows held out have chosen.

    A plain model's single predictions are kept, with those of the held-out rows, `first`.
    """
    recipe = job.recipe
    rows = subsample(data.evaluation[own], recipe.uncertainty_rows)
    fitted = {name: about["temperature"] for name, about in held_out.items()}
    strange = data.test[STRANGE][: recipe.uncertainty_rows] or None
    found = hf_bam.compare(predictors, task.inputs(rows), task.labels(rows), ood=strange)
    found = with_temperatures(found, fitted)
    for row in found.table:
        samples = found.outcomes[row["method"]].samples
        guesses = samples.mean(axis=0).argmax(axis=-1).tolist()
        row |= {f"score_{name}": value for name, value in task.score(rows, guesses).items()}
        if "disagreement" in rows.column_names:
            row["disagreement"] = metrics.spearman(rows["disagreement"], metrics.predictive_entropy(samples))
    record = {"methods": found.table, "rows": len(rows)}
    if job.attention == "plain":
        record["predictions"] = {
            name: said(outcome.outcomes["plain"].samples, outcome.labels)
            for name, outcome in {"own": found, "holdout": first}.items()
        }
        if found.ood is not None:
            record["predictions"][STRANGE] = said(found.ood["plain"].samples)
        if "disagreement" in rows.column_names:
            record["disagreement"] = list(rows["disagreement"])
    return record


def said(samples, labels=()):
    """Single predictions, and labels, as a record keeps them: an ensemble is made of several records."""
    return {"probabilities": samples[0].round(6).tolist(), "labels": [int(label) for label in labels]}


def objective(job, task, model, tokenizer, rows):
    """Task loss and KL of training rows by strength of the noise, without dropout: what a learned k would go by."""
    features = task.encode(subsample(rows, ROWS_OF_OBJECTIVE), tokenizer, job.recipe.max_length, training=True)
    collate, config = task.collator(tokenizer, model), hf_bam.get_config(model)
    batches = [collate([features[i] for i in batch]) for batch in sorted_batches(feature_lengths(features), BATCH)]
    batches = [batch for batch in batches for _ in range(PASSES)]
    sizes = [len(batch["labels"]) for batch in batches]
    for k in (20.0, 10.0, *SHAPES, 0.25):
        noisy = with_noise(model, config, k).model.train()
        for module, name, _ in dropouts(noisy):
            setattr(module, name, 0.0)
        torch.manual_seed(0)
        with torch.no_grad():
            found = [noisy(**batch) for batch in batches]
        means = {name: np.average([float(out[name]) for out in found], weights=sizes) for name in ("task_loss", "kl")}
        yield {"k": k, **means}


def methods(model, probed):
    """Samplers by method and by strength of the noise; one without a choice has one strength, None."""
    if hf_bam.is_patched(model):
        found = {"mean": {None: Plain(model)}, "draws": {None: Bam(model)}}
        return found | ({"draws and dropout": {None: Bam(model, dropout=USUAL_DROPOUT)}} if probed else {})
    found = {"plain": {None: Plain(model)}, "MC dropout": {rate: Dropout(model, rate=rate) for rate in RATES}}
    if probed:
        every = hf_bam.BamConfig(prior="none", noise="entry")
        last = every.replace(noise="token", layers=1)
        found["noise untrained"] = {k: with_noise(model, every, k) for k in SHAPES}
        found["token noise untrained"] = {k: with_noise(model, last, k) for k in SHAPES}
    return found


def with_noise(model, config, k, dropout=None):
    """Draws from a copy of the model with noise as strong as that of a Weibull law of shape k, and dropout beside."""
    noisy = copy.deepcopy(model)
    hf_bam.patch(noisy, config.replace(k=k, sigma=math.pi / math.sqrt(6) / k))
    return Bam(noisy, dropout=dropout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
