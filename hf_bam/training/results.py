"""What comes out of a run, and what several runs have in common."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..tasks.base import Data
from .compatibility import RESULTS, present_names
from .files import write_json
from .uncertainty import Uncertainty

FILE = "results.json"


@dataclass
class Trained:
    """What a run worked with; the doubt is by set."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    data: Data
    uncertainty: dict[str, Uncertainty]


@dataclass
class Result:
    """What came out of a run.

    Attributes:
        name: of the task.
        scores: with mean attention, by set.
        uncertainty: for each set a table with a row for each method.
        about: rows, steps, the best of them, seconds, the settings and the fingerprints of the data.
        trained: not there when the run was done before, or when it is one of many.
    """

    name: str
    folder: Path
    scores: dict[str, dict[str, float]]
    uncertainty: dict[str, list[dict[str, Any]]]
    about: dict[str, Any]
    trained: Trained | None = field(default=None, repr=False)

    def write(self) -> Path:
        content = {"task": self.name, "scores": self.scores, "uncertainty": self.uncertainty, **self.about}
        return write_json(self.folder / FILE, content)

    @classmethod
    def read(cls, folder: Path) -> Result:
        try:
            content = json.loads((folder / FILE).read_text(encoding="utf-8"))
            content = present_names(content, RESULTS)
            return cls(content.pop("task"), folder, content.pop("scores"), content.pop("uncertainty"), content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder / FILE} does not hold the results of a run ({error!r}); remove it.") from error


def score_rows(scores: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each set."""
    return [{"set": part, **values} for part, values in scores.items()]


def summary(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the runs of each task, for every set and score."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for result in results:
        for part, scores in result.scores.items():
            for score, value in scores.items():
                values.setdefault((result.name, part, score), []).append(value)
    return [
        {
            "task": name,
            "set": part,
            "score": score,
            "mean": statistics.fmean(numbers),
            "std": statistics.stdev(numbers) if len(numbers) > 1 else math.nan,
            "runs": len(numbers),
        }
        for (name, part, score), numbers in values.items()
    ]
