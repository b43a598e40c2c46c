"""What a predictor says of an input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ..evaluation.metrics import (
    expected_entropy,
    mutual_information,
    predictive_entropy,
    top_probability,
    top_std,
    top_two_p_values,
)

Array = np.ndarray
Kind = TypeVar("Kind", bound="Uncertainty")


@dataclass(frozen=True)
class Uncertainty:
    """How sure a choice between classes is, from the draws of their probabilities.

    Attributes:
        probability: mean probability of the most probable class.
        std: its standard deviation over the draws.
        p_value: of the t-test between the mean probabilities of the two most probable classes, as the paper's PAvPU
            takes it; NaN for a single draw.
        significant: whether the p-value is below the threshold, which says that enough draws were made to tell the two
            means apart. It is no confidence: a lead of 0.51 to 0.49 is significant when the draws agree on it. How
            likely the label is to be right is `probability`, how unsure the model is `entropy` and `epistemic`.
        entropy: of the mean distribution, in nats; the sum of the next two.
        aleatoric: mean entropy of a draw: doubt that more knowledge of the model would not remove.
        epistemic: what is left: disagreement between the draws.
        draws: how many there were.
    """

    probability: float
    std: float
    p_value: float
    significant: bool
    entropy: float
    aleatoric: float
    epistemic: float
    num_samples: int

    @classmethod
    def make(cls: type[Kind], doubt: Uncertainty, **values: Any) -> Kind:
        """A result with this doubt, and with what it says besides or instead."""
        return cls(**{**{f.name: getattr(doubt, f.name) for f in fields(Uncertainty)}, **values})


def uncertainties(samples: Array, threshold: float, paired: bool = False) -> list[Uncertainty]:
    """The doubt about each of B choices, from samples (S, B, C)."""
    draws, number, _ = samples.shape
    # A single draw has no spread to test against.
    p_values = top_two_p_values(samples, paired=paired) if draws > 1 else np.full(number, np.nan)
    columns = {
        "probability": top_probability(samples),
        "std": top_std(samples),
        "p_value": p_values,
        "entropy": predictive_entropy(samples),
        "aleatoric": expected_entropy(samples),
        "epistemic": mutual_information(samples),
    }
    rows = ({name: float(column[i]) for name, column in columns.items()} for i in range(number))
    return [Uncertainty(significant=row["p_value"] < threshold, num_samples=draws, **row) for row in rows]


def deviation(samples: Array) -> Array:
    """Standard deviation over the draws, the first axis; 0 for a single one."""
    return samples.std(axis=0, ddof=1) if len(samples) > 1 else np.zeros(samples.shape[1:])


@dataclass(frozen=True)
class Classification(Uncertainty):
    """A label for a text.

    Attributes:
        truncated: whether the text was longer than the model reads.
        samples: (S, C) probabilities.
    """

    label: str
    truncated: bool
    samples: Array = field(repr=False)


@dataclass(frozen=True)
class MultiLabel:
    """Labels for a text, each by itself.

    Attributes:
        labels: those with a mean probability above one half.
        uncertainties: for every label, the choice between yes and no.
        probabilities: mean probability of every label.
        samples: (S, C) probabilities.
    """

    labels: list[str]
    probabilities: dict[str, float]
    uncertainties: dict[str, Uncertainty]
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)


@dataclass(frozen=True)
class Regression:
    """A number for a text.

    Attributes:
        low, high: central interval of the draws at the predictor's `level`. It holds the doubt of the model, and not
            the noise of the targets.
        samples: (S,).
    """

    value: float
    std: float
    low: float
    high: float
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)


@dataclass(frozen=True)
class Token(Uncertainty):
    """A label for a token, which stands at [start, end) of its text."""

    label: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Tokens:
    """The labels of the tokens of a text; samples: (S, T, C)."""

    tokens: list[Token]
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)


Result = TypeVar("Result")


class Predictions(Sequence[Result], Generic[Result]):
    """The results for a list of inputs, in their order."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = list(results)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | Predictions[Result]:
        return Predictions(self._results[index]) if isinstance(index, slice) else self._results[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._results))

    @property
    def num_samples(self) -> Array:
        """(B,) how many draws each input took."""
        return np.array([result.num_samples for result in self._results])  # type: ignore[attr-defined]

    @property
    def samples(self) -> Array:
        """(S, B, ...) all draws. Where adaptive sampling stopped early the rest is NaN."""
        parts = [result.samples for result in self._results]  # type: ignore[attr-defined]
        if not parts:
            return np.zeros((0, 0))
        out = np.full((max(map(len, parts)), len(parts), *parts[0].shape[1:]), np.nan)
        for index, part in enumerate(parts):
            out[: len(part), index] = part
        return out
