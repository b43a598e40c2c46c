"""Rows of a report: lists of single inputs, and a file with all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import tables
from ..comparison import Comparison
from ..findings import Findings, Judged
from .escaping import shortened


@dataclass(frozen=True)
class Example:
    """Input with the prediction of one method; numbers as text."""

    text: str
    prediction: str
    label: str
    probability: str
    uncertainty: str
    correct: bool
    loss: str


def truth_of(found: Comparison | Findings) -> list[str]:
    """Return the true outputs as texts."""
    if isinstance(found, Findings):
        return found.references
    return [found.label_names[index] for index in found.labels]


def make_examples(found: Comparison | Findings, own: Judged, chosen: Iterable[int]) -> list[Example]:
    """Return the chosen inputs with the predictions of a method."""
    truth = truth_of(found)
    return [
        Example(
            text=found.texts[index],
            prediction=own.predictions[index],
            label=truth[index] if truth else "",
            probability=own.confidence[index],
            uncertainty=f"{own.uncertainty[index]:.2f}",
            correct=bool(own.losses[index] == 0),
            loss=f"{own.losses[index]:.2f}",
        )
        for index in chosen
    ]


def in_markdown(examples: Iterable[Example]) -> str:
    """Return a Markdown table of inputs."""
    header = ("input", "prediction", "label", "probability", "uncertainty", "correct")
    body = [
        (
            *(
                tables.escape_markdown(shortened(text, 160))
                for text in (example.text, example.prediction, example.label)
            ),
            example.probability,
            example.uncertainty,
            "yes" if example.correct else "no",
        )
        for example in examples
    ]
    return tables.markdown_table(header, body, "lllrrl")


def as_csv(found: Comparison | Findings, judged: dict[str, Judged]) -> bytes:
    """Return all inputs with the prediction and the uncertainty of every method, as a CSV file."""
    file, truth = io.StringIO(newline=""), truth_of(found)
    writer = csv.writer(file)
    writer.writerow(["method", "text", "label", "prediction", "loss", "uncertainty", "aleatoric", "epistemic"])
    for name, own in judged.items():
        parts: Sequence[Sequence[object]] = [
            [""] * len(found.texts) if part is None else [f"{value:.6g}" for value in part]
            for part in (own.losses, own.uncertainty, own.aleatoric, own.epistemic)
        ]
        labels = truth or [""] * len(found.texts)
        columns = (found.texts, labels, own.predictions, *parts)
        writer.writerows([name, *row] for row in zip(*columns, strict=True))
    return file.getvalue().encode("utf-8", errors="replace")
