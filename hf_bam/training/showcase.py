"""Comparison of plain finetuning and Bayesian attention on sentences with human ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..evaluation import metrics, tables
from ..evaluation.comparison import Comparison, compare
from ..evaluation.temperature import with_temperatures
from ..prediction import Predictor
from ..tasks.base import Data, Task
from .evaluation import subsample
from .logger import Log
from .run import run
from .settings import Job
from .uncertainty import make_predictors

IN_DOMAIN = ("validation", "test")
"""Sets of the training domain; the others are out-of-distribution."""
EXAMPLES = ("A film of rare beauty.", "Two hours that I will not get back.", "Well, it exists.", "So bad it is good.")


def show(job: Job, output: Path, examples: Sequence[str] = EXAMPLES, log: Log = print) -> Comparison:
    """Finetune with plain and with Bayesian attention, and compare the uncertainty of both.

    The table has measures of calibration, of error detection and of out-of-distribution detection, and the correlation
    of the uncertainty with the disagreement of the people who rated the sentences.

    Args:
        job: of the task sentiment; its `attention` is not used.
        examples: sentences whose predictions are shown.
    """
    task, predictors = job.make_task(), dict[str, Predictor]()
    for attention in ("plain", "bam"):
        log(f"\n--- {'Bayesian attention' if attention == 'bam' else 'plain finetuning'} ---")
        one = replace(job, attention=attention, recipe=job.recipe.replace(num_samples=0))
        trained = run(one, output / attention, overwrite_output_dir=True, log=log).trained
        assert trained is not None
        predictors |= make_predictors(task, trained.model, trained.tokenizer, job.recipe)
        data = trained.data
    comparison = compare_methods(job, predictors, task, data)
    number = len(comparison.labels)
    log(f"\n--- uncertainty on {number} sentences of the test set ---\n{tables.as_text(comparison.table)}\n")
    log("disagreement: rank correlation of uncertainty with the spread of the people's ratings")
    log("ood_auroc: how well uncertainty separates sentences of other domains from those of the training domain\n")
    *_, sampling = predictors.values()
    for text, result in zip(examples, sampling(list(examples)), strict=True):
        log(f"{result.label}  {result.probability:.2f} ± {result.std:.2f}  entropy {result.entropy:.2f}  {text}")
    return comparison


def compare_methods(job: Job, predictors: dict[str, Predictor], task: Task, data: Data) -> Comparison:
    """Compare all methods on the test set, with sentences of other domains as out-of-distribution inputs."""
    rows = subsample(data.evaluation["test"], job.recipe.uncertainty_rows)
    others = {name: own for name, own in data.evaluation.items() if name not in IN_DOMAIN}
    ood = [text for own in others.values() for text in task.inputs(subsample(own, len(rows) // len(others)))]
    labels = task.labels(rows)
    assert labels is not None
    comparison = with_temperatures(compare(predictors, task.inputs(rows), labels, ood=ood))
    for row in comparison.table:
        entropy = metrics.predictive_entropy(comparison.outcomes[str(row["method"])].samples)
        row["disagreement"] = metrics.spearman(rows["disagreement"], entropy)
    return comparison
