"""Results of a run, and a summary of several runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..fields import parse_json
from ..prediction import Predictor
from ..tasks.base import Data
from .compatibility import RESULTS, present_names
from .files import write_json
from .uncertainty import Uncertainty

FILE = "results.json"


@dataclass
class Trained:
    """Objects of a finished run: model, tokenizer, data, uncertainty by set, and the predictor if one was fitted."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    data: Data
    uncertainty: dict[str, Uncertainty]
    predictor: Predictor[Any] | None = None


@dataclass
class Result:
    """Results of a run.

    Attributes:
        name: name of the task.
        scores: by set, with mean attention.
        uncertainty: by set, a table with a row for each method.
        about: rows, steps, the best step, seconds, settings and fingerprints of the data.
        trained: None if the run was finished earlier, or if it is one of several.
    """

    name: str
    folder: Path
    scores: dict[str, dict[str, float]]
    uncertainty: dict[str, list[dict[str, Any]]]
    about: dict[str, Any]
    trained: Trained | None = field(default=None, repr=False)

    def write(self) -> Path:
        """Write results.json."""
        content = {"task": self.name, "scores": self.scores, "uncertainty": self.uncertainty, **self.about}
        return write_json(self.folder / FILE, content)

    @classmethod
    def read(cls, folder: Path) -> Result:
        """Return the results of a folder; raise `ValueError` if the file holds something else."""
        try:
            content = present_names(parse_json((folder / FILE).read_bytes()), RESULTS)
            return cls(content.pop("task"), folder, content.pop("scores"), content.pop("uncertainty"), content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder / FILE} does not hold the results of a run ({error!r}); remove it.") from error


def score_rows(scores: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Return a table with a row for each set."""
    return [{"set": part, **values} for part, values in scores.items()]


def summary(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return mean and standard deviation over the runs of each task, for every set and score."""
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
