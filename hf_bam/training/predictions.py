"""What a [`Predictor`][hf_bam.prediction.Predictor] has to know of a task, and a task of a predictor's results."""

from __future__ import annotations

import math
from typing import Any

from ..prediction import Generation
from ..prediction import Answer
from ..tasks.base import Task
from ..tasks.squad import Squad
from ..tasks.squad_answers import SquadAnswer
from ..tasks.translation import Translation


def predictor_options(task: Task) -> dict[str, Any]:
    """Settings with which a predictor does what the task's own decoding does."""
    if isinstance(task, Squad):
        return {
            "null_answer": task.version == "2.0",
            "stride": task.doc_stride,
            "n_best": task.n_best,
            "max_answer_tokens": task.max_answer_length,
        }
    return {"generation": task.generation} if isinstance(task, Translation) else {}


def prediction_of(result: Any) -> Any:
    """A predictor's result as the prediction that the task scores."""
    if isinstance(result, Generation):
        return result.text
    if isinstance(result, Answer):
        span = next((one for one in result.n_best if one.answer), None)
        odds = _log(result.null_probability) - _log(span.probability if span else 0.0)
        return SquadAnswer(result.answer, result.probability, span.answer if span else "", odds, [])
    raise TypeError(f"A {type(result).__name__} is not a prediction that a task could score.")


def _log(probability: float) -> float:
    return math.log(max(probability, 1e-300)) if not math.isnan(probability) else -math.inf
