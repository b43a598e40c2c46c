"""Finetuning of all tasks with one loop.

Settings (`Recipe`, `Job`, recipe files, command lines), the loop with its checkpoints and its log, evaluation and
uncertainty of the trained model, and the folder of a run live here. This package imports everything below it: tasks,
integrations, prediction, evaluation, patching and the core; only `cli` imports it. It knows tasks by the methods of
[`Task`][hf_bam.tasks.base.Task] alone.
"""

from ..extras import check_extra

check_extra("train", "hf_bam.training")

from .evaluation import BestModelTracker
from .loop import Loop, train
from .recipe import Recipe
from .results import Result
from .run import run, run_all
from .settings import Job, resolve

__all__ = ["BestModelTracker", "Job", "Loop", "Recipe", "Result", "resolve", "run", "run_all", "train"]
