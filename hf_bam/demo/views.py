"""Results prepared for the page: numbers as texts and shares, for all kinds of models alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..evaluation.tables import format_value
from ..prediction import Answer, Classification, Generation, Predictor, Regression
from ..prediction.results import Array
from .attention import TokenWeight
from .session import Session, Shown

LEVEL = 0.9
"""Part of the samples within an interval."""
MOST_ROWS = {"classification": 8, "question-answering": 6, "generation": 40, "regression": 1}
"""Strips that are shown, by kind."""
NO_ANSWER = "no answer"


@dataclass(frozen=True)
class Strip:
    """Samples of one number as points on a line; positions are percent of its length.

    Attributes:
        text: mean and interval in numbers.
        band: start and length of the interval.
        points: position and height of each sample.
    """

    name: str
    text: str
    chosen: bool
    mean: float
    band: tuple[float, float]
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Parts:
    """Total uncertainty and its parts, in nats; shares are percent of a bar."""

    total: str
    aleatoric: str
    epistemic: str
    aleatoric_share: float
    epistemic_share: float
    limit: str


@dataclass(frozen=True)
class Known:
    """Novelty of the input."""

    percentile: float
    text: str
    familiar: bool


@dataclass(frozen=True)
class View:
    """Everything that the page shows about one input.

    Attributes:
        before, headline, after: the prediction, within the context of a question or alone.
        marked: the prediction is a part of the context.
        probability: probability of the prediction and the interval of its samples.
        strips: samples of the alternatives, and `ticks` under them.
        chosen_set: labels of the prediction set, or the ends of an interval; None where there is none.
        set_note: reason why there is none, or coverage.
        others: further texts from single samples of the attention.
    """

    kind: str
    headline: str
    probability: str
    strips: list[Strip]
    ticks: list[str]
    strips_title: str
    parts: Parts | None
    known: Known | None
    tokens: list[TokenWeight]
    num_samples: int
    before: str = ""
    after: str = ""
    marked: bool = False
    chosen_set: list[str] | None = None
    set_note: str = ""
    others: list[str] = field(default_factory=list)
    agreement: str = ""
    truncated: bool = False
    answered: bool | None = None


def view(session: Session, shown: Shown) -> View:
    """Return the content of the page for a result."""
    result = shown.result
    specific = {Classification: _label, Answer: _answer, Generation: _text, Regression: _number}[type(result)]
    values: dict[str, Any] = {
        "kind": session.kind,
        "parts": _parts(result, session.predictor),
        "known": _known(result),
        "tokens": shown.tokens,
        "num_samples": result.num_samples,
        "truncated": getattr(result, "truncated", False),
        "ticks": ["0", "0.25", "0.5", "0.75", "1"],
    }
    return View(**{**values, **specific(session.predictor, shown)})


def _label(predictor: Predictor, shown: Shown) -> dict[str, Any]:
    result: Classification = shown.result
    names = predictor.label_names
    order = np.argsort(-result.samples.mean(axis=0), kind="stable")[: MOST_ROWS["classification"]]
    strips = [strip(names[index], result.samples[:, index], chosen=index == result.prediction) for index in order]
    sets = predictor.calibration.sets
    note = _missing(shown, "prediction sets")
    if result.prediction_set is not None and sets is not None:
        note = f"contains the true label of at least {100 * (1 - sets.alpha):.0f} % of such inputs"
    return {
        "headline": result.label,
        "probability": about(result.samples[:, result.prediction]),
        "strips": strips,
        "strips_title": "Probability of each label",
        "chosen_set": result.prediction_set,
        "set_note": note,
        "answered": result.answered,
    }


def _answer(predictor: Predictor, shown: Shown) -> dict[str, Any]:
    result: Answer = shown.result
    context, chosen = shown.item[1], (result.start, result.end)
    columns = list(zip(result.n_best, result.samples.T, strict=True))
    own = next(samples for one, samples in columns if (one.start, one.end) == chosen)
    return {
        "before": context[: result.start] if result.answer else context,
        "headline": result.answer or NO_ANSWER,
        "after": context[result.end :] if result.answer else "",
        "marked": bool(result.answer),
        "probability": about(own),
        "strips": [
            strip(one.answer or NO_ANSWER, samples, chosen=(one.start, one.end) == chosen)
            for one, samples in columns[: MOST_ROWS["question-answering"]]
        ],
        "strips_title": "Probability of each answer",
    }


def _text(predictor: Predictor, shown: Shown) -> dict[str, Any]:
    result: Generation = shown.result
    columns = zip(result.tokens, result.samples.T, strict=True)
    strips = [strip(token.text.strip() or "␣", own) for token, own in columns]
    return {
        "headline": result.text,
        "probability": f"{result.probability:.2f} per token" if result.tokens else "—",
        "strips": strips[: MOST_ROWS["generation"]],
        "strips_title": "Probability of each token",
        "others": list(dict.fromkeys(result.hypotheses)),
        "agreement": "" if math.isnan(result.agreement) else f"{result.agreement:.2f}",
    }


def _number(predictor: Predictor, shown: Shown) -> dict[str, Any]:
    result: Regression = shown.result
    ends = [result.low, result.high, *result.samples.tolist()]
    low, high = min(ends), max(ends)
    margin = 0.1 * (high - low) or 1.0
    scale = (low - margin, high + margin)
    intervals = predictor.calibration.intervals
    fitted = intervals is not None and shown.guarantees
    note = (
        f"contains at least {100 * (1 - intervals.alpha):.0f} % of such targets"
        if intervals is not None and fitted
        else ""
    )
    return {
        "headline": format_value(result.value),
        "probability": f"± {result.std:.3g} over the samples",
        "strips": [strip("samples", result.samples, chosen=True, scale=scale)],
        "ticks": [format_value(scale[0] + part * (scale[1] - scale[0])) for part in (0, 0.25, 0.5, 0.75, 1)],
        "strips_title": "Predicted number",
        "chosen_set": [f"{result.low:.3f} to {result.high:.3f}"] if fitted else None,
        "set_note": note or _missing(shown, "intervals"),
    }


def strip(name: str, samples: Array, *, chosen: bool = False, scale: tuple[float, float] = (0.0, 1.0)) -> Strip:
    """Return samples (S,) as points between the ends of a scale."""
    low, high = interval(samples)
    start, end = position(low, scale), position(high, scale)
    points = [(position(value, scale), 50 + 70 * (jitter(index) - 0.5)) for index, value in enumerate(samples)]
    text = f"{samples.mean():.2f}" + (f" [{low:.2f}, {high:.2f}]" if len(samples) > 1 else "")
    return Strip(name, text, chosen, position(samples.mean(), scale), (start, end - start), points)


def interval(samples: Array) -> tuple[float, float]:
    """Return the ends of the central interval of samples (S,)."""
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def position(value: float, scale: tuple[float, float]) -> float:
    """Return a position on a scale in percent."""
    return round(100 * (float(value) - scale[0]) / (scale[1] - scale[0]), 2)


def jitter(index: int) -> float:
    """Return a height between 0 and 1 that spreads neighbouring samples evenly (golden ratio)."""
    return (index * 0.6180339887498949) % 1


def about(samples: Array) -> str:
    """Return the mean of samples (S,) with their interval."""
    if len(samples) == 1:
        return f"{samples[0]:.2f}, one deterministic pass"
    low, high = interval(samples)
    return f"{samples.mean():.2f}, {100 * LEVEL:.0f} % of the samples between {low:.2f} and {high:.2f}"


def _parts(result: Any, predictor: Predictor) -> Parts | None:
    total = getattr(result, "entropy", None)
    if total is None or math.isnan(total):
        return None
    classes = len(predictor.label_names) if isinstance(result, Classification) else 0
    limit = math.log(classes) if classes > 1 else max(total, 1.0)
    aleatoric, epistemic = (100 * max(0.0, part) / limit for part in (result.aleatoric, result.epistemic))
    return Parts(
        total=f"{total:.3f}",
        aleatoric=f"{result.aleatoric:.3f}",
        epistemic=f"{result.epistemic:.3f}",
        aleatoric_share=aleatoric,
        epistemic_share=epistemic,
        limit=f"{limit:.2f}" if classes > 1 else "",
    )


def _known(result: Any) -> Known | None:
    if result.novelty is None:
        return None
    percent = 100 * result.novelty.percentile
    return Known(round(percent, 1), f"more unusual than {percent:.0f} % of held-out inputs", result.in_distribution)


def _missing(shown: Shown, what: str) -> str:
    if not shown.guarantees:
        return f"fitted {what} hold for the noise and the number of samples of their fit"
    return "not fitted to held-out inputs"
