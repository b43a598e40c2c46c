"""Number of samples that a prediction needs: estimators with few passes against 32 independent samples.

A model of each task draws 64 samples of every row once. Estimators are means over random subsets of them; the
reference is the mean over 32 others, and both are measured on the same bootstrap sample of the rows.
"""

import json
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

import hf_bam
from hf_bam.evaluation import metrics
from hf_bam.evaluation.tables import as_markdown
from hf_bam.prediction import Bam, Plain
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve

from .. import storage
from .grid import PlannedRun, read, settings, split
from .methods import Trained
from .uncertainty import BATCH, parts_of

CHANGES = {
    "clinc150": {},
    "sentiment": {},
    # The study has no out-of-distribution inputs for this task: sentences of linguists.
    "sst-2": {"ood": {"reader": "task", "name": "cola", "split": "dev"}},
}
"""Tasks of studies/uncertainty.yaml, and settings that differ from those of its configuration BAM with seed 0."""
ROWS = {"test": 1000, "ood": 500}
BANK, REFERENCE = 64, 32
SAMPLES = (1, 2, 3, 4, 5, 6, 8, 16, 32)
SHOWN = (1, 2, 4, 6, 8, 16)
WITH_MEAN = (1, 3, 5)
"""Numbers of samples that are averaged together with mean attention, one more pass."""
SPLITS, REPLICATES = 40, 1000
TEST, OOD = "test", "ood"


def trained_model(task, options):
    """Return the trained model of a task, its data and its evaluation; a finished run is read from its folder."""
    grid = read(options.grid)
    values = settings(grid, PlannedRun(task, "BAM", 0), options.data_dir) | CHANGES[task]
    evaluation, training = split(values)
    job = resolve(training | {"precision": "fp32", "num_samples": 0})
    folder = Path(options.output, task)
    run = Run(job, folder, (), print)
    run.go(resume=True, report=False, hub_model_id=None)
    data = run.load()
    model, tokenizer = run.task.build(str(folder / "model"), data)
    hf_bam.load(model, folder / "model")
    return Trained(job, run.task, model, tokenizer), data, evaluation


def bank(task, options):
    """Return labels, and probabilities of mean attention and of all samples, on test rows and others."""
    file = Path(options.output, task, "bank.npz")
    if not file.exists():
        trained, data, evaluation = trained_model(task, options)
        parts = parts_of(trained, data, evaluation, limits=ROWS)
        found = {"labels": parts.labels[TEST]}
        for name in (TEST, OOD):
            for key, sampler, number in (("mean", Plain, 1), ("samples", Bam, BANK)):
                predictor = trained.predictor(sampler(trained.model), num_samples=number, batch_size=BATCH)
                found[f"{key}_{name}"] = predictor(parts.inputs[name][: ROWS[name]]).samples.astype(np.float32)
        np.savez(file, **found)
    with np.load(file) as content:
        return dict(content)


def estimators(found, random):
    """Yield random estimates by name: the name, its passes, and probabilities of test rows and others, (B, C) each.

    The first one is the reference. No sample of the reference is used by another estimator.
    """
    order = random.permutation(BANK)

    def average(numbers, with_mean=False):
        both = []
        for name in (TEST, OOD):
            parts = [found[f"samples_{name}"][numbers], *([found[f"mean_{name}"]] if with_mean else [])]
            both.append(np.concatenate(parts).mean(axis=0, dtype=np.float64))
        return both

    rest = order[REFERENCE:]
    yield "reference", REFERENCE, average(order[:REFERENCE])
    yield "mean attention", 1, average(rest[:0], with_mean=True)
    for number in SAMPLES:
        yield "samples", number, average(rest[:number])
    for number in WITH_MEAN:
        yield "mean attention and samples", number + 1, average(rest[:number], with_mean=True)


def by_row(labels, test, ood):
    """Return what the measures of an estimate need of each row: loss, error and entropy, and entropy of the others."""
    p = np.take_along_axis(test, labels[:, None], axis=1)[:, 0]
    loss, error = -np.log(p.clip(min=metrics.calibration.SMALLEST)), test.argmax(axis=1) != labels
    return loss, error, metrics.predictive_entropy(test[None]), metrics.predictive_entropy(ood[None])


def measures(rows, test, ood):
    """Return the measures of a bootstrap sample, given by the indices of its rows."""
    loss, error, entropy, others = rows
    return {
        "nll": float(loss[test].mean()),
        "error_auroc": auroc(entropy[test][~error[test]], entropy[test][error[test]]),
        "ood_auroc": auroc(entropy[test], others[ood]),
    }


def auroc(low, high):
    """Return the probability that a score of `high` is above one of `low`; ties are one half. Fast."""
    ranked = np.sort(low)
    return float(np.mean([np.searchsorted(ranked, high, side).mean() for side in ("left", "right")]) / len(low))


def compare(found, splits=SPLITS, replicates=REPLICATES):
    """Yield a row for each estimator and measure: the difference to the reference, with its 95 % interval.

    The interval is that of one use: over rows and over samples, those of the reference included. An estimator is
    as good as the reference if the interval lies within one standard error of the measure on both sides.
    """
    random, labels = np.random.default_rng(0), found["labels"]
    drawn = [list(estimators(found, random)) for _ in range(splits)]
    rows = [[by_row(labels, *both) for _, _, both in own] for own in drawn]
    values = []
    for replicate in range(replicates):
        test = random.integers(len(labels), size=len(labels))
        ood = random.integers(found["mean_ood"].shape[1], size=found["mean_ood"].shape[1])
        values.append([measures(own, test, ood) for own in rows[replicate % splits]])
    for measure in values[0][0]:
        table = np.array([[own[measure] for own in replicate] for replicate in values])  # (replicates, estimators)
        error = float(table[:, 0].std(ddof=1))
        for index, (name, passes, _) in enumerate(drawn[0]):
            difference = table[:, index] - table[:, 0]
            low, high = np.quantile(difference, [0.025, 0.975])
            yield {
                "measure": measure,
                "estimator": name,
                "passes": passes,
                "value": round(float(table[:, index].mean()), 5),
                "standard_error": round(error, 5),
                "difference": round(float(difference.mean()), 5),
                "interval": [round(float(low), 5), round(float(high), 5)],
                "as_good": bool(max(-low, high) <= error),
                "differs": bool(low > 0 or high < 0),
            }


def table(rows):
    """Return the measures of 32 samples with their standard errors, and the differences of fewer samples to them."""
    lines = []
    for key, own in groupby(rows, key=itemgetter("task", "measure")):
        own = {(row["estimator"], row["passes"]): row for row in own}
        reference = own["reference", REFERENCE]
        line = dict(zip(("task", "measure"), key, strict=True))
        line[f"{REFERENCE} samples"] = f"{reference['value']:.3f}"
        line["standard error"] = f"{reference['standard_error']:.3f}"
        shown = {"mean attention": ("mean attention", 1)} | {str(n): ("samples", n) for n in SHOWN}
        for name, which in shown.items():
            low, high = own[which]["interval"]
            line[name] = f"{own[which]['difference']:+.4f} ({low:+.3f} to {high:+.3f})"
        lines.append(line)
    return as_markdown(lines, text_columns=2)


def main(options):
    rows = []
    for task in CHANGES:
        found = bank(task, options)
        accuracy = metrics.accuracy(found["labels"], found["mean_test"])
        sizes = {"accuracy": round(accuracy, 4), "rows": len(found["labels"]), "ood_rows": found["mean_ood"].shape[1]}
        rows += [{"task": task, **sizes, **row} for row in compare(found)]
        print(json.dumps(sizes), flush=True)
    storage.write("samples", rows)
