"""Evaluation of the methods of a run on a classification task."""

from dataclasses import dataclass
from functools import cache

import hf_bam
from hf_bam.evaluation import metrics
from hf_bam.evaluation.comparison import Comparison
from hf_bam.evaluation.temperature import fit_temperature, with_temperatures
from hf_bam.training.evaluation import subsample

from .methods import SAMPLES_FOR_SELECTION, Selection, select, selection_record

ROWS_FOR_SELECTION = 600
MEASURES = ("accuracy", "nll", "ece", "error_auroc", "epistemic")


@dataclass(frozen=True)
class HeldOut:
    """A method on held-out rows: its selected noise level, its predictions, and its measures and temperature."""

    selection: Selection
    comparison: Comparison
    measures: dict[str, float]


def held_out_record(methods):
    """Return the entries `held_out` and `selection` of the record of a run."""
    return {
        "held_out": {name: method.measures for name, method in methods.items()},
        "selection": selection_record({name: method.selection for name, method in methods.items()}),
    }


def on_held_out_rows(trained, samplers, rows):
    """Select noise level and temperature of every method by the negative log-likelihood of held-out rows."""
    rows = subsample(rows, ROWS_FOR_SELECTION)
    inputs, labels = trained.task.inputs(rows), trained.task.labels(rows)

    @cache
    def compared(name, level):
        predictor = trained.predictor(samplers[name][level], num_samples=SAMPLES_FOR_SELECTION)
        return hf_bam.compare({name: predictor}, inputs, labels)

    found = {}
    for name, levels in samplers.items():
        selection = select(levels, lambda level, name=name: compared(name, level).table[0]["nll"])
        comparison = compared(name, selection.level)
        temperature = fit_temperature(comparison.labels, comparison.outcomes[name].samples)
        row, scaled = with_temperatures(comparison, {name: temperature}).table
        measures = {key: row[key] for key in MEASURES}
        measures |= {"temperature": temperature, "nll + temperature": scaled["nll"]}
        found[name] = HeldOut(selection, comparison, measures)
    return found


def pilot(trained, samplers, rows):
    """Return the record of all methods on held-out rows."""
    return held_out_record(on_held_out_rows(trained, samplers, rows))


def evaluate(trained, samplers, rows, held_out, ood_inputs):
    """Return the record of all methods, with the noise levels and temperatures that held-out rows select.

    The single predictions of a plain model are part of it: an ensemble is made of several records.
    """
    task, selected = trained.task, on_held_out_rows(trained, samplers, held_out)
    rows = subsample(rows, trained.job.recipe.uncertainty_rows)
    predictors = {name: trained.predictor(samplers[name][method.selection.level]) for name, method in selected.items()}
    comparison = hf_bam.compare(predictors, task.inputs(rows), task.labels(rows), ood=ood_inputs)
    temperatures = {name: method.measures["temperature"] for name, method in selected.items()}
    comparison = with_temperatures(comparison, temperatures)
    for row in comparison.table:
        samples = comparison.outcomes[row["method"]].samples
        predictions = samples.mean(axis=0).argmax(axis=-1).tolist()
        row |= {f"score_{name}": value for name, value in task.score(rows, predictions).items()}
        if "disagreement" in rows.column_names:
            row["disagreement"] = metrics.spearman(rows["disagreement"], metrics.predictive_entropy(samples))
    record = {**held_out_record(selected), "methods": comparison.table, "rows": len(rows)}
    if trained.job.attention == "plain":
        held_out = selected["plain"].comparison
        record["predictions"] = {
            "evaluation": predictions_record(comparison.outcomes["plain"], comparison.labels),
            "holdout": predictions_record(held_out.outcomes["plain"], held_out.labels),
        }
        if comparison.ood is not None:
            record["predictions"]["ood"] = predictions_record(comparison.ood["plain"])
        if "disagreement" in rows.column_names:
            record["disagreement"] = list(rows["disagreement"])
    return record


def predictions_record(outcome, labels=()):
    """Return probabilities and labels as numbers of JSON."""
    return {"probabilities": outcome.samples[0].round(6).tolist(), "labels": [int(label) for label in labels]}
