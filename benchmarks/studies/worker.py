"""One run of the study: training of a configuration with one seed, and evaluation of its methods.

python -m benchmarks.studies.worker FOLDER SETTINGS    # SETTINGS: JSON, from grid.settings; writes FOLDER/record.json
"""

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

import torch

import hf_bam
from hf_bam.training.files import write_json
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve

from . import alignments, classification, ood, other_tasks, uncertainty
from .ensemble import MEMBERS
from .grid import split
from .methods import Trained, methods
from .objective import objective

SEED_OF_EXTRAS = 0
"""Seed with which further methods are evaluated, and the objective by width of the noise."""


def main(folder, settings):
    evaluation, training = split(settings)
    job = resolve(training)
    if evaluation.start is not None:
        job = replace(job, model_name_or_path=start_model(folder, evaluation.start))
    run = Run(replace(job, recipe=job.recipe.replace(num_samples=0)), folder, (), print)
    data, members, record = run.load(), [], {}
    if evaluation.ensemble is not None:
        members = ensemble_members(folder, evaluation.ensemble)
    else:
        result = run.go(resume=True, report=False, hub_model_id=None)
        members = [folder / "ensemble" / f"step-{step:08d}" for step in result.about.get("members", ())]
        sets = ["holdout"] if evaluation.pilot else result.scores
        record = {"scores": {name: result.scores[name] for name in sets}, "steps": result.about["steps"]}
        record |= training_cost(folder, result)
    source = folder / "model" if evaluation.ensemble is None else members[0]
    model, tokenizer = run.task.build(str(source), data)
    if job.attention == "bam":
        hf_bam.load(model, source)
    trained = Trained(job, run.task, model, tokenizer, members)
    with torch.autocast("cpu", torch.bfloat16, enabled=job.recipe.precision == "bf16"):
        record |= evaluate(trained, data, evaluation)
    if job.attention == "bam" and job.seed == SEED_OF_EXTRAS and "held_out" in record and not evaluation.pilot:
        record["objective"] = list(objective(trained, data.train))
    write_json(folder / "record.json", record)


def ensemble_members(folder, configuration):
    """Return the folders of the models of another configuration of the same task, one for each seed."""
    members = sorted(folder.parents[1].glob(f"{configuration.replace(' ', '-')}/seed-*/model"))
    if len(members) < MEMBERS:
        raise ValueError(f"{folder} needs {MEMBERS} models of {configuration!r}, there are {len(members)}.")
    return members[:MEMBERS]


def start_model(folder, configuration):
    """Return the folder of the model of another configuration with the same task and seed."""
    path = folder.parents[1] / configuration / folder.name / "model"
    if not path.is_dir():
        raise ValueError(f"{folder} needs the model of {configuration!r}, whose run comes first: {path} is missing.")
    return str(path)


def training_cost(folder, result):
    """Return time and peak memory of the training; a file keeps them for an evaluation that is repeated."""
    file = folder / "cost.json"
    if not file.exists():
        peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        write_json(file, {"training_seconds": result.about["seconds"], "peak_megabytes": peak})
    return json.loads(file.read_text(encoding="utf-8"))


def evaluate(trained, data, evaluation):
    """Evaluate the methods and return their entries of the record; pilot runs only have held-out rows."""
    if evaluation.suite == "uncertainty":
        return uncertainty.evaluate(trained, data, evaluation)
    name = evaluation.evaluation_set or next(name for name in data.evaluation if name != "holdout")
    rows, held_out = data.evaluation[name], data.evaluation.get("holdout", next(iter(data.evaluation.values())))
    if evaluation.suite == "alignments":
        return alignments.evaluate(trained, data, rows)
    is_classification = trained.task.labels(rows) is not None
    samplers = methods(trained.model, extra=is_classification and trained.job.seed == SEED_OF_EXTRAS)
    if evaluation.pilot:
        return classification.pilot(trained, samplers, held_out) if is_classification else {}
    inputs = ood.read(evaluation.ood, trained.task, data, trained.job.data_dir)
    rows = ood.remove(trained.task, rows, inputs)
    inputs = inputs[: trained.job.recipe.uncertainty_rows] or None
    if is_classification:
        return classification.evaluate(trained, samplers, rows, held_out, inputs)
    return other_tasks.evaluate(trained, samplers, rows, held_out, inputs, evaluation.teacher_forcing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
