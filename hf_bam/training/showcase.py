"""Plain finetuning and Bayesian attention side by side, on sentences of which people said how sure they are."""

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
from .run import Say, run
from .settings import Job
from .uncertainty import make_predictors

OWN = ("validation", "test")
"""Sets of the domain that was trained on; the others are strange to the model."""
EXAMPLES = ("A film of rare beauty.", "Two hours that I will not get back.", "Well, it exists.", "So bad it is good.")


def show(job: Job, output: Path, examples: Sequence[str] = EXAMPLES, say: Say = print) -> Comparison:
    """Finetunes twice and asks: is doubt higher where the model errs, where people disagree, and off its domain?

    Args:
        job: of the task sentiment; its attention is of no account.
        examples: sentences whose doubt is shown.
    """
    task, predictors = job.make_task(), dict[str, Predictor]()
    for attention in ("plain", "bam"):
        say(f"\n--- {'Bayesian attention' if attention == 'bam' else 'plain finetuning'} ---")
        quiet = replace(job, attention=attention, recipe=job.recipe.replace(num_samples=0))
        trained = run(quiet, output / attention, overwrite_output_dir=True, say=say).trained
        assert trained is not None
        predictors |= make_predictors(task, trained.model, trained.tokenizer, job.recipe)
        data = trained.data
    comparison = judged(job, predictors, task, data)
    say(f"\n--- doubt on {len(comparison.labels)} sentences of the test set ---\n{tables.as_text(comparison.table)}\n")
    say("disagreement: rank correlation of doubt with the spread of the people's ratings")
    say("ood_auroc: how well doubt tells sentences of other domains from those of the one trained on\n")
    *_, drawing = predictors.values()
    for text, result in zip(examples, drawing(list(examples)), strict=True):
        say(f"{result.label}  {result.probability:.2f} ± {result.std:.2f}  doubt {result.entropy:.2f}  {text}")
    return comparison


def judged(job: Job, predictors: dict[str, Predictor], task: Task, data: Data) -> Comparison:
    """All methods on sentences of the test set, with those of other domains as strange ones."""
    rows = subsample(data.evaluation["test"], job.recipe.uncertainty_rows)
    others = {name: own for name, own in data.evaluation.items() if name not in OWN}
    strange = [text for own in others.values() for text in task.inputs(subsample(own, len(rows) // len(others)))]
    labels = task.labels(rows)
    assert labels is not None
    comparison = with_temperatures(compare(predictors, task.inputs(rows), labels, ood=strange))
    for row in comparison.table:
        doubt = metrics.predictive_entropy(comparison.outcomes[str(row["method"])].samples)
        row["disagreement"] = metrics.spearman(rows["disagreement"], doubt)
    return comparison
