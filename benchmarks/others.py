"""What the methods of a cell say where predictions are numbers or texts."""

import time
from pathlib import Path

from tokens import foreseen, foresight, scaled

from hf_bam.evaluation import metrics
from hf_bam.tasks.squad import read
from hf_bam.tasks.translation import Translation
from hf_bam.training.evaluation import subsample
from hf_bam.training.uncertainty import make_predictor, measure_results

DRAWS_TO_TUNE = 8
CHOSEN_BY = ("crps", "aurc")
"""What chooses between strengths of the noise, the first that a task has: right answers count for both, doubt too."""


def others(job, task, methods, tokenizer, sets, own, strange):
    """A row for each method; where there are references to decide_early, also one with a temperature.

    Rows held out, or those that have chosen the checkpoint, choose the temperature and the strength of a method that
    has a choice: by the likelihood of references, where there are some.
    """
    rows = subsample(sets[own], job.recipe.uncertainty_rows)
    known = subsample(sets.get("holdout", next(iter(sets.values()))), job.recipe.uncertainty_rows)
    unusual = strange_inputs(task, sets, strange, job.data_dir, len(rows))
    with_references = isinstance(task, Translation)

    def predict(sampler, inputs, draws=job.recipe.num_samples):
        return make_predictor(task, sampler, tokenizer, job.recipe.replace(num_samples=draws))(inputs)

    def decide_early(sampler, part, draws=job.recipe.num_samples):
        return foreseen(task, sampler, tokenizer, part, job.recipe.max_length, draws, job.seed)

    def loss(sampler):
        if with_references:
            return metrics.nll(*decide_early(sampler, known, DRAWS_TO_TUNE))
        measures = measure_results(task, known, predict(sampler, task.inputs(known), DRAWS_TO_TUNE))
        return next(measures[name] for name in CHOSEN_BY if name in measures)

    found = []
    for name, strengths in methods.items():
        losses = {strength: loss(sampler) for strength, sampler in strengths.items()} if len(strengths) > 1 else {}
        best = min(losses, key=losses.get, default=None)
        start = time.perf_counter()
        results = predict(strengths[best], task.inputs(rows))
        row = {"method": name, "seconds": time.perf_counter() - start, "strength": best}
        row |= {f"held-out loss, {strength}": value for strength, value in losses.items()}
        row |= measure_results(task, rows, results)
        if unusual:
            doubts = [[result.entropy for result in part] for part in (results, predict(strengths[best], unusual))]
            row["ood_auroc"] = metrics.ood_auroc(*doubts)
        found.append(row)
        if with_references:
            choosing, measured = (decide_early(strengths[best], part) for part in (known, rows))
            row |= foresight(*measured)
            found.append({"method": f"{name} + temperature", **scaled(choosing, measured)})
    return found


def strange_inputs(task, sets, strange, data_dir, number):
    """Texts of which a model should be less sure: another evaluation set, or questions without an answer."""
    if strange is None:
        return None
    if strange[1] in sets:
        return task.inputs(subsample(sets[strange[1]], number))
    asked = read(Path(data_dir, strange[1]), "2.0")
    silent = asked.select([i for i, answers in enumerate(asked["answers"]) if not answers["text"]])
    return task.inputs(subsample(silent, number))
