"""A run, from the data to a trained model with its scores and its uncertainty; and several runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator, PartialState
from accelerate.tracking import get_available_trackers
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..evaluation import tables
from ..patching.state import base_model
from ..tasks.base import Data, Task
from . import publishing, randomness
from .assessment import Assessment
from .batching import padding
from .building import build
from .checkpoints import Checkpoints
from .environment import environment, slow_precision
from .evaluation import BestModelTracker, Evaluator, holdout_split, subsample
from .files import write_json
from .fits import fit_novelty
from .folder import Folder, on_main
from .identity import check_same, comparable, fingerprint
from .logger import Log
from .loop import Loop, make_accelerator
from .positions import check_positions
from .recipe import bam_summary
from .results import Result, Trained, score_rows, summary
from .settings import Job
from .uncertainty import Uncertainty


def run(
    job: Job,
    output: Path | str,
    *,
    resume: bool = False,
    overwrite_output_dir: bool = False,
    report: bool = True,
    report_to: Sequence[str] = (),
    hub_model_id: str | None = None,
    log: Log = print,
) -> Result:
    """Load the data, train, evaluate and save; all files go to the folder `output`.

    Args:
        resume: resume from the last checkpoint in the folder; the results of a finished run are read. Settings and
            data must be those of the earlier run.
        overwrite_output_dir: remove the run in the folder, finished or not. Without this and without `resume`, a
            folder that holds a run is an error.
        report: write an uncertainty report, if matplotlib is installed.
        report_to: trackers of Accelerate, such as "tensorboard".
        hub_model_id: repository on the Hub to push the model to.
        log: takes lines of text about the run.
    """
    return Run(job, Path(output), report_to, log).go(resume, report, hub_model_id, overwrite_output_dir)


def run_all(jobs: Sequence[Job], output: Path | str, *, log: Log = print, **options: Any) -> list[Result]:
    """Run several jobs, each in a folder of its own, and summarise them by means and standard deviations over seeds.

    Args:
        options: as for `run`.
    """
    results, main, file = [], PartialState().is_main_process, Path(output, "summary.json")
    folders = [Path(output, job.make_task().name, f"seed-{job.seed}") for job in jobs]
    for folder in folders:
        if folders.count(folder) > 1:
            raise ValueError(f"{folder} would hold two runs; give every task and every seed once.")
    if main and (options.get("resume") or options.get("overwrite_output_dir")):
        file.unlink(missing_ok=True)  # it may describe runs that no longer exist
    for job, folder in zip(jobs, folders, strict=True):
        if main:
            log(f"\n{folder}")
        results.append(replace(run(job, folder, log=log, **options), trained=None))  # one model in memory at a time
    if main:
        rows = summary(results)
        log(f"\n{tables.as_text(rows)}\n\nWritten: {write_json(file, rows)}")
    return results


class Run:
    """A run in progress; the arguments are those of `run`."""

    def __init__(self, job: Job, folder: Path, report_to: Sequence[str], log: Log) -> None:
        for name in set(report_to) - {str(tracker) for tracker in get_available_trackers()}:
            raise ValueError(f"report_to={name!r} is not possible: there is no such tracker, or it is not installed.")
        self.job, self.recipe, self.folder = job, job.recipe, folder
        self.accelerator: Accelerator = make_accelerator(
            job.recipe, log_with=list(report_to) or None, project_dir=folder
        )
        self.main: bool = self.accelerator.is_main_process
        self.log: Log = log if self.main else lambda text: None
        self.task: Task = job.make_task()

    def go(self, resume: bool, report: bool, hub_model_id: str | None, overwrite: bool = False) -> Result:
        """Lock the folder, and finetune or return the results of a finished run."""
        with Folder(self.folder).locked():
            done = Folder(self.folder).is_done(self.job, resume, overwrite)
            data = self.load()
            self.identity = {
                "settings": comparable(self.job.to_dict()),
                "data": on_main(lambda: {name: fingerprint(rows) for name, rows in data.sets.items()}),
            }
            return self.done() if done else self.finetune(data, resume, overwrite, report, hub_model_id)

    def finetune(self, data: Data, resume: bool, overwrite: bool, report: bool, hub_model_id: str | None) -> Result:
        """Train, evaluate and save."""
        randomness.seed_all(self.job.seed)  # the same initial weights in every process
        model, tokenizer = build(self.job, self.task, data)
        self.evaluator = Evaluator(self.task, tokenizer, self.recipe, self.accelerator)
        about = self.train(model, tokenizer, data, resume, overwrite) | self.identity
        if isinstance(model, PeftModel):
            on_main(partial(publishing.replace_folder, self.folder / "adapter", model.save_pretrained))
            model = model.merge_and_unload()
        assessment = Assessment(self.evaluator, model, self.folder / "predictions", self.log)
        fits = bool(self.recipe.num_samples and self.recipe.fit_rows)
        name, predictor = next(iter(data.evaluation)), None
        held_out = data.evaluation[name]
        if fits:
            self.evaluator.novelty = fit_novelty(self.evaluator, model, data.train, held_out, self.log)
        scores, found = assessment.scores(data.evaluation, data.test), dict[str, Uncertainty]()
        length, folder = self.recipe.max_length, self.folder / "predictions"
        further = on_main(lambda: self.task.finish(model, tokenizer, data, length, folder))
        if further:
            self.log(f"\n{tables.as_text(score_rows(further))}")
            scores = {part: own | further.get(part, {}) for part, own in scores.items()}
        if self.recipe.num_samples:
            options = {"members": self.members.load(model), "novelty": self.evaluator.novelty if data.ood else None}
            found = assessment.uncertainty(data.evaluation, data.ood, **options)
        if fits:
            predictor = assessment.fit(name, held_out, found[name])
        assessment.write({**data.evaluation, **data.test}, found)
        final = {f"{part}/{name}": value for part, own in scores.items() for name, value in own.items()}
        self.accelerator.log(final, step=about["steps"])
        trained = Trained(model, tokenizer, data, found, predictor)
        tables_by_set = {name: found.table for name, found in trained.uncertainty.items()}
        result = Result(self.task.name, self.folder, scores, tables_by_set, about, trained)
        on_main(lambda: self.publish(result, trained, report, hub_model_id))
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self.accelerator.free_memory()
        self.accelerator.wait_for_everyone()
        return result

    def done(self) -> Result:
        """Return the results of an earlier run with the same settings and data."""
        result = Result.read(self.folder)
        if "data" in result.about:  # earlier versions did not write it
            check_same(self.folder, {"data": result.about["data"]}, {"data": self.identity["data"]})
        if self.main:  # checkpoints of a run that was killed just after it wrote the results
            Checkpoints(self.folder / "checkpoints").clear()
            Folder(self.folder).remove_unfinished()
        self.log(f"{self.folder} is already finished.")
        return result

    def load(self) -> Data:
        """Return the rows of all sets, subsampled as the job wants."""
        folder, loaded = None if self.job.data_dir is None else Path(self.job.data_dir), list[Data]()
        on_main(lambda: loaded.append(self.task.load(folder)))  # only one process downloads
        data = loaded[0] if loaded else self.task.load(folder)
        data.check_texts()
        limit = self.job.eval_limit or self.job.limit
        data.train = subsample(data.train, self.job.limit)
        data.evaluation = {name: subsample(rows, limit) for name, rows in data.evaluation.items()}
        if self.job.holdout is not None:
            data.train, held_out = holdout_split(data.train, self.job.holdout)
            data.evaluation = {"holdout": held_out, **data.evaluation}
        data.test = {name: subsample(rows, limit) for name, rows in data.test.items()}
        data.ood = {name: subsample(rows, limit) for name, rows in data.ood.items()}
        self.rows = {name: len(rows) for name, rows in data.sets.items()}
        self.log(f"{self.task.name}: " + ", ".join(f"{number} rows in {name}" for name, number in self.rows.items()))
        return data

    def train(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Data, resume: bool, overwrite: bool
    ) -> dict[str, Any]:
        """Train in place; return the number of steps, the best step and the time."""
        check_positions(base_model(model), tokenizer, self.task, data, self.recipe.max_length)
        features = self.task.encode(data.train, tokenizer, self.recipe.max_length)
        held_out = subsample(next(iter(data.evaluation.values())), self.recipe.eval_rows)

        def scores(model: PreTrainedModel) -> dict[str, float]:
            return self.evaluator.scores(model, held_out)

        fixed = ("task_name", "options", "model_name_or_path", "attention", "lora", "limit", "eval_limit", "holdout")
        loop = Loop(
            model,
            features,
            self.task.collator(tokenizer, model),
            self.recipe,
            self.folder,
            accelerator=self.accelerator,
            best_model=BestModelTracker(scores, self.task.metric, self.task.greater_is_better),
            seed=self.job.seed,
            about={name: self.job.to_dict()[name] for name in fixed} | {"data": self.identity["data"]},
            log=self.log,
        )
        lines = environment(self.accelerator), slow_precision(self.accelerator), self.describe(loop)
        self.log("\n".join(filter(None, lines)))
        Folder(self.folder).begin(self.job, overwrite)
        self.accelerator.init_trackers("hf_bam", {key: str(value) for key, value in self.job.to_dict().items()})
        start = time.perf_counter()
        state = loop.run(resume)
        seconds, self.members = time.perf_counter() - start, loop.members
        about = {"rows": self.rows, "steps": state.step, "best": state.best, "seconds": round(seconds, 1)}
        return about | ({"members": list(loop.members.steps)} if loop.members.steps else {})

    def describe(self, loop: Loop) -> str:
        """Return the main settings on one line."""
        job, recipe = self.job, self.recipe
        length = padding(loop.batches.lengths, loop.batches.share(0, 0))
        return ", ".join(
            [
                f"{job.model_name_or_path}{' with LoRA' if job.lora else ''}",
                bam_summary(recipe.bam) if job.attention == "bam" else "plain attention",
                f"{loop.total} steps of {recipe.batch_size} at lr {recipe.learning_rate:g}"
                f"{', all of them in the warmup' if loop.warmup >= loop.total else ''}",
                f"seed {job.seed}",
                f"{length:.0%} padding",
            ]
        )

    def publish(self, result: Result, trained: Trained, report: bool, hub_model_id: str | None) -> None:
        """Write report, model and card, and last the results, which mark the run as finished."""
        pages = publishing.write_reports(trained.uncertainty, self.folder / "report", self.job) if report else []
        card = publishing.card(result, trained.model, self.job, self.task, hub_model_id, pages)
        publishing.save_model(trained, card, self.folder / "model")
        if hub_model_id is not None:
            self.log(f"\nPushed to {publishing.push(trained, hub_model_id, card)}")
        for folder in self.members.folders:
            trained.tokenizer.save_pretrained(folder)
        written = [result.write(), self.folder / "model", *self.members.folders, *pages]
        Checkpoints(self.folder / "checkpoints").clear()
        self.log("\nWritten: " + ", ".join(map(str, written)))
