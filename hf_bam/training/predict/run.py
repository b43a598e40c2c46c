"""Prediction of rows: read, predicted and written in parts, so that memory does not grow with their number."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ...prediction import Predictor
from ...prediction.inputs import chunks
from ...tasks.readers import Record
from ...tasks.writers import check_ending, writing
from ..evaluate.settings import settings_of_run
from ..logger import Log
from . import predictors, sources, workers
from .settings import Prediction

Row = dict[str, Any]
Part = list[tuple[Record, sources.Item | None]]
"""Rows with their texts; None for rows without one."""
BATCHES = 8
"""Batches of a part, which are sorted by length."""


@dataclass
class Summary:
    """Numbers of rows of a prediction.

    Attributes:
        empty: places of the first rows without a text.
    """

    rows: int = 0
    without_text: int = 0
    truncated: int = 0
    unlike: int = 0
    empty: list[str] = field(default_factory=list)

    def add(self, part: Part, rows: list[Row], prefix: str) -> None:
        missing = [record.place for record, text in part if text is None]
        self.rows += len(part)
        self.without_text += len(missing)
        self.empty = (self.empty + missing)[:3]
        self.truncated += sum(bool(row.get(f"{prefix}truncated")) for row in rows)
        self.unlike += sum(row.get(f"{prefix}in_distribution") is False for row in rows)

    def __str__(self) -> str:
        more = {"truncated": self.truncated, "not in distribution": self.unlike}
        notes = [f"{number} {name}" for name, number in more.items() if number]
        if self.without_text:
            notes.append(
                f"{self.without_text} without a text and so without a prediction ({', '.join(self.empty)}"
                f"{', ...' if self.without_text > len(self.empty) else ''})"
            )
        return f"{self.rows} rows" + (f": {', '.join(notes)}" if notes else "")


def predict(settings: Prediction, log: Log = print) -> Summary:
    """Predict the rows of a file or a data set, and write them with their predictions.

    A row without a text stays in the output, without a prediction.

    Returns:
        Numbers of rows.
    """
    check(settings)
    run = settings_of_run(settings.model_name_or_path)
    records = sources.records(settings)
    first = next(records)
    predictor = predictors.load(settings, run)
    names = sources.columns(settings, run, predictor.head_class, first)
    predictors.fit(predictor, settings, names)
    log(predictors.describe(predictor, settings))
    start, summary = time.perf_counter(), Summary()
    beginning = run.get("options", {}).get("prefix", "")
    texts = ((record, sources.item(record, names, beginning)) for record in chain([first], records))
    parts = chunks(texts, BATCHES * settings.batch_size)
    hidden = None if settings.output else True  # None: hidden where there is no terminal
    with ExitStack() as stack:
        write = stack.enter_context(writing(None if settings.output is None else Path(settings.output)))
        bar = stack.enter_context(tqdm(unit="row", disable=hidden, leave=False))
        waiting: list[Row] = []  # rows before the first with a text: only a prediction tells the columns
        for part, found in results(predictor, parts, settings, run, stack):
            rows = joined(part, found, settings.prefix)
            summary.add(part, rows, settings.prefix)
            waiting += rows
            if summary.rows > summary.without_text:
                write(waiting)
                waiting = []
            bar.update(len(part))
        write(waiting)
    seconds = time.perf_counter() - start
    log(f"{summary}; {seconds:.1f} s" + ("" if settings.output is None else f"\nWritten: {settings.output}"))
    return summary


def check(settings: Prediction) -> None:
    """Raise `ValueError` for an output that exists, and in processes of a launcher."""
    if settings.output is not None:
        check_ending(Path(settings.output))
        if Path(settings.output).exists() and not settings.overwrite:
            raise ValueError(f"{settings.output} exists; add --overwrite, or choose another file.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("hf-bam predict starts its own processes: use --num_processes in place of a launcher.")


def results(
    predictor: Predictor[Any], parts: Iterator[Part], settings: Prediction, run: dict[str, Any], stack: ExitStack
) -> Iterator[tuple[Part, list[Row]]]:
    """Yield every part with the columns of its predictions, in order."""
    score = settings.target_column is not None
    asked = ((part, [text for _, text in part if text is not None]) for part in parts)
    if settings.num_processes == 1:
        yield from ((part, workers.predict_items(predictor, texts, score)) for part, texts in asked)
        return
    pool = stack.enter_context(workers.executor(settings, run, predictor))
    tasks = ((part, (texts, score)) for part, texts in asked)
    yield from workers.in_order(pool, workers.predict_part, tasks, 2 * settings.num_processes)


def joined(part: Part, found: list[Row], prefix: str) -> list[Row]:
    """Return the rows of the input with the columns of their predictions behind their own."""
    predictions, rows = iter(found), []
    for record, text in part:
        new = {} if text is None else {f"{prefix}{name}": value for name, value in next(predictions).items()}
        for name in new:
            if name in record.values:
                raise ValueError(
                    f"{record.path} has a column {name!r}, which a prediction has too; give the new columns a "
                    "beginning: --prefix bam_"
                )
        rows.append({**record.values, **new})
    return rows
