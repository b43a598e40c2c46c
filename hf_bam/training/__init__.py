"""Finetuning on one loop, for all tasks."""

from .evaluation import BestModelTracker
from .loop import Loop, train
from .recipe import Recipe
from .results import Result
from .run import run, run_all
from .settings import Job, resolve

__all__ = ["BestModelTracker", "Job", "Loop", "Recipe", "Result", "resolve", "run", "run_all", "train"]
