"""Evaluation of a trained model: scores, uncertainty of several methods, and files with both."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from ...attention.interface import NAME
from ...prediction import Calibration, Predictor
from ...prediction.calibration import FILE as CALIBRATION
from ...prediction.calibration import NoveltyFit
from ...prediction.defaults import longest
from ...prediction.storage import named_model
from ...tasks.base import Task
from ...tasks.writers import write_rows
from .. import publishing
from ..assessment import Assessment
from ..building import packaged
from ..evaluation import Evaluator
from ..files import write_json
from ..folder import on_main
from ..logger import Log
from ..loop import make_accelerator
from ..settings import Job
from ..uncertainty import Uncertainty, labelled
from . import sources
from .settings import Evaluation

FILE = "comparison.json"


def evaluate(
    job: Job,
    evaluation: Evaluation,
    output: Path | None = None,
    *,
    overwrite: bool = False,
    report: bool = True,
    log: Log = print,
) -> dict[str, Uncertainty]:
    """Measure a trained model, deterministic and sampled, with and without temperature, on labelled rows.

    Args:
        job: model, task and recipe; nothing is trained.
        output: folder for the tables, the report and the predictions; None: nothing is written.
        overwrite: replace the evaluation in the folder.
        report: write a report, if matplotlib is installed.

    Returns:
        The measures by set.
    """
    if output is not None and (output / FILE).exists() and not overwrite:
        raise ValueError(f"{output} holds an evaluation; add --overwrite_output_dir, or choose another folder.")
    accelerator, task = make_accelerator(job.recipe), job.make_task()
    log = log if accelerator.is_main_process else lambda text: None
    model, tokenizer = load_trained(job, task)
    task = sources.reader(job, model) if job.task_name == "custom" else task
    rows = sources.load(job, task, evaluation, model)
    limit = min(job.recipe.max_length, longest(model, tokenizer))
    recipe = job.recipe.replace(uncertainty_rows=None, max_length=limit)
    evaluator, model = Evaluator(task, tokenizer, recipe, accelerator), model.to(accelerator.device)
    check_options(evaluator.predictor(model), evaluation)
    log(f"{job.model_name_or_path}: " + ", ".join(f"{len(own)} rows in {name}" for name, own in rows.labelled.items()))
    evaluator.novelty = fit_novelty(evaluator, model, rows, packaged(job.model_name_or_path))
    assessment = Assessment(evaluator, model, None if output is None else output / "predictions", log)
    scores = assessment.scores(rows.labelled, {})
    options = {"held_out": rows.held_out, "novelty": evaluator.novelty, "alpha": evaluation.alpha}
    found = assessment.uncertainty(rows.labelled, rows.ood, **options)
    if output is not None:
        assessment.write({name: own for name, own in rows.labelled.items() if found[name].comparison is None}, found)
        written = on_main(lambda: write(output, job, evaluation, scores, found, report))
        log("\nWritten: " + ", ".join(map(str, written)))
    return found


def load_trained(job: Job, task: Task) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model and its tokenizer; a Bayesian model is patched as it was."""
    name = packaged(job.model_name_or_path)
    with named_model(job.model_name_or_path):
        bayesian = hasattr(AutoConfig.from_pretrained(name), NAME)
        options = {"attn_implementation": NAME} if bayesian else {}
        model, loading = task.auto_class.from_pretrained(name, output_loading_info=True, **options)
        tokenizer = task.load_tokenizer(name)
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(
            f"model_name_or_path={job.model_name_or_path!r} is not trained for {task.name}: it has no {missing[0]}."
        )
    return model.eval(), tokenizer


def check_options(predictor: Predictor, evaluation: Evaluation) -> None:
    """Raise `ValueError` for options of classification if the model has no classes."""
    for name in ("held_out", "train", "ood"):
        if getattr(evaluation, name) is not None and predictor.head_name != "classification":
            raise ValueError(f"--{name} is for classification; this model has head={predictor.head_name!r}.")


def fit_novelty(
    evaluator: Evaluator, model: PreTrainedModel, rows: sources.Rows, name_or_path: str
) -> NoveltyFit | None:
    """Return the fit to the training rows, or the fit that is saved with the model; None if there is neither.

    Held-out rows give the rate of false alarms.
    """
    if rows.train is None:
        path = cached_file(name_or_path, CALIBRATION, _raise_exceptions_for_missing_entries=False)
        return None if path is None else Calibration.read(Path(path).parent)[0].novelty
    held_out = None if rows.held_out is None else labelled(evaluator.task, rows.held_out)[0]
    inputs, labels = labelled(evaluator.task, rows.train)
    return evaluator.predictor(model).fit(inputs, labels, held_out=held_out).calibration.novelty


def write(
    output: Path,
    job: Job,
    evaluation: Evaluation,
    scores: dict[str, dict[str, float]],
    found: dict[str, Uncertainty],
    report: bool,
) -> list[Path]:
    """Write the tables and the reports, and return their paths."""
    sets: dict[str, Any] = {
        name: {"scores": scores[name], "table": own.table, "recommendation": own.recommendation}
        for name, own in found.items()
    }
    about = {"model_name_or_path": job.model_name_or_path, "task_name": job.task_name, **asdict(evaluation)}
    pages = publishing.write_reports(found, output / "report", job) if report else []
    for name, own in found.items():
        if own.comparison is not None:
            write_rows(output / "predictions" / f"{name}.jsonl", own.comparison.predictions())
    return [write_json(output / FILE, {**about, "sets": sets}), output / "predictions", *pages]
