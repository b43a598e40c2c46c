"""Plain finetuning and Bayesian attention on movie reviews: comparison, and use of the recommended method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..evaluation import showcase, tables
from ..evaluation.comparison import Comparison, compare
from ..evaluation.temperature import SUFFIX, with_temperatures
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
RISK = 0.1
"""Error rate of answered sentences that abstention keeps."""
PREDICTOR = "predictor"
ROWS_OF_NOVELTY = 3000
"""Sentences of the training set to which novelty is fitted."""


@dataclass(frozen=True)
class Texts:
    """Sentences of the showcase: the training set, held-out ones, those of the table, and those of other domains."""

    training: tuple[list[str], list[int]]
    held_out: tuple[list[str], list[int]]
    test: tuple[list[str], list[int]]
    others: dict[str, list[str]]

    @classmethod
    def of_data(cls, task: Task, data: Data, limit: int | None) -> Texts:
        """Return the sentences of all sets: at most `limit` of each, half of that of other domains."""
        half = None if limit is None else max(1, limit // 2)
        sets = {name: subsample(rows, limit if name in IN_DOMAIN else half) for name, rows in data.evaluation.items()}
        training, held_out, test = (
            (list(task.inputs(rows)), list(task.labels(rows) or ()))
            for rows in (subsample(data.train, ROWS_OF_NOVELTY), *(sets[name] for name in IN_DOMAIN))
        )
        others = {name: list(task.inputs(rows)) for name, rows in sets.items() if name not in IN_DOMAIN}
        return cls(training, held_out, test, others)


def show(job: Job, output: Path, examples: Sequence[str] = EXAMPLES, log: Log = print) -> Comparison:
    """Finetune with plain and with Bayesian attention, compare both, and show what the recommended method can do.

    Temperatures, prediction sets, abstention and the recommendation come from held-out sentences, novelty from the
    training set. The rows of the table are used for nothing else. The folder `PREDICTOR` of the output has the
    predictor of the recommended method.

    Args:
        job: of the task sentiment; its `attention` is not used.
        examples: sentences whose predictions are shown.
    """
    predictors, texts = train_both(job, output, log)
    ood = [text for own in texts.others.values() for text in own]
    numbers = [len(texts.held_out[0]), len(texts.test[0]), len(ood)]
    log(f"\n{len(predictors)} methods predict {sum(numbers)} sentences: held-out, test and other domains ...")
    comparison = with_temperatures(compare(predictors, *texts.test, ood=ood, held_out=texts.held_out))
    log(f"\n--- all methods on the same {len(comparison.labels)} sentences of the test set ---")
    log(f"{tables.as_text(showcase.method_rows(comparison))}\n\n{showcase.against(comparison, 'plain')}")
    assert comparison.held_out is not None
    chosen = with_temperatures(comparison.held_out).recommended
    log(f"\n--- {chosen}, recommended by the {len(texts.held_out[0])} held-out sentences ---")
    predictor = predictors[chosen.removesuffix(SUFFIX)]
    if chosen.endswith(SUFFIX):
        predictor = predictor.calibrated(*texts.held_out)
    predictor.fit(*texts.training, held_out=texts.held_out[0]).conformal(*texts.held_out)
    try:
        predictor.abstain(*texts.held_out, risk=RISK)
    except ValueError as error:  # too few held-out sentences, or a model that is wrong too often
        log(f"\nNo abstention: {error}")
    results = predictor(texts.test[0])
    log(showcase.about_sets(texts.test, results, predictor.label_names))
    log(showcase.about_novelty(results, {name: (own, predictor(own)) for name, own in texts.others.items()}))
    log(showcase.about_abstention(texts.test[1], results))
    log("\nExamples")
    for text, result in zip(examples, predictor(list(examples)), strict=True):
        log(showcase.about_result(text, result))
    predictor.save_pretrained(output / PREDICTOR)
    log(f"\nSaved with all of this: {output / PREDICTOR}")
    return comparison


def train_both(job: Job, output: Path, log: Log) -> tuple[dict[str, Predictor], Texts]:
    """Return deterministic predictors and such that sample, of a plain and of a Bayesian model, and the sentences."""
    task, predictors = job.make_task(), dict[str, Predictor]()
    for attention in ("plain", "bam"):
        log(f"\n--- {'Bayesian attention' if attention == 'bam' else 'plain finetuning'} ---")
        one = replace(job, attention=attention, recipe=job.recipe.replace(num_samples=0))
        trained = run(one, output / attention, overwrite_output_dir=True, log=log).trained
        assert trained is not None
        predictors |= make_predictors(task, trained.model, trained.tokenizer, job.recipe)
        texts = Texts.of_data(task, trained.data, job.recipe.uncertainty_rows)
    return predictors, texts
