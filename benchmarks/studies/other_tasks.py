"""Evaluation of the methods of a run whose predictions are numbers or texts."""

import time

from hf_bam.evaluation import metrics
from hf_bam.training.evaluation import subsample

from .methods import SAMPLES_FOR_SELECTION, select, selection_record
from .tokens import token_measures, token_probabilities, with_temperature

LOSSES = ("crps", "aurc")
"""Measures that select a noise level, the first that a task has: both depend on errors and on the uncertainty."""


def evaluate(trained, samplers, rows, held_out, ood_inputs, teacher_forcing):
    """Return the record of all methods, with the noise levels that held-out rows select.

    With `teacher_forcing` the tokens of the references are evaluated too. Held-out rows then select the noise level by
    their likelihood, and a temperature.
    """
    task, number = trained.task, trained.job.recipe.uncertainty_rows
    rows, held_out = subsample(rows, number), subsample(held_out, number)

    def loss(sampler):
        if teacher_forcing:
            return metrics.nll(*token_probabilities(trained, sampler, held_out, SAMPLES_FOR_SELECTION))
        results = trained.predictor(sampler, num_samples=SAMPLES_FOR_SELECTION)(task.inputs(held_out))
        measures = task.measures(held_out, results)
        return next(measures[name] for name in LOSSES if name in measures)

    found, selected = [], {}
    for name, levels in samplers.items():
        selected[name] = select(levels, lambda level, levels=levels: loss(levels[level]))
        sampler = levels[selected[name].level]
        predictor, start = trained.predictor(sampler), time.perf_counter()
        results = predictor(task.inputs(rows))
        row = {"method": name, "seconds": time.perf_counter() - start, **task.measures(rows, results)}
        if ood_inputs:
            entropies = [[result.entropy for result in part] for part in (results, predictor(ood_inputs))]
            row["ood_auroc"] = metrics.ood_auroc(*entropies)
        found.append(row)
        if teacher_forcing:
            tokens = token_probabilities(trained, sampler, rows)
            row |= token_measures(*tokens)
            scaled = with_temperature(token_probabilities(trained, sampler, held_out), tokens)
            found.append({"method": f"{name} + temperature", **scaled})
    return {"methods": found, "selection": selection_record(selected)}
