"""Results of a predictor and the uncertainty that they have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..evaluation import tables
from ..evaluation.metrics import (
    expected_entropy,
    mutual_information,
    predictive_entropy,
    top_probability,
    top_std,
    top_two_p_values,
)

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
Kind = TypeVar("Kind", bound="Uncertainty")
UNCERTAINTY = ("probability", "std", "entropy", "aleatoric", "epistemic")
"""Fields of a choice between classes that tables show."""
SHOWN = 20
"""Results that a notebook shows at most."""


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of a choice between classes, from samples of their probabilities.

    Attributes:
        probability: mean probability of the most probable class.
        std: standard deviation of that probability over the samples.
        p_value: p-value of the t-test between the mean probabilities of the two most probable classes, as in the
            paper's PAvPU; NaN for a single sample.
        significant: the p-value is below the threshold. There are enough samples to distinguish the two means.
            It is not a confidence: a lead of 0.51 to 0.49 is significant when the samples agree on it. Use
            `probability` for the confidence in the label, `entropy` and `epistemic` for the uncertainty of the model.
        entropy: total uncertainty: entropy of the mean distribution, in nats; the sum of the next two.
        aleatoric: mean entropy of the samples: uncertainty that remains when the model is known.
        epistemic: mutual information, the difference: disagreement between the samples.
        num_samples: number of samples.
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
    def make(cls: type[Kind], uncertainty: Uncertainty, **values: Any) -> Kind:
        """Build a result from an uncertainty and further fields, which take precedence."""
        return cls(**{**{f.name: getattr(uncertainty, f.name) for f in fields(Uncertainty)}, **values})


@dataclass(frozen=True)
class Novelty:
    """Distance of an input from the training set of `predictor.fit`.

    Attributes:
        score: sum of standardised distances of the features of several layers.
        percentile: share of held-out inputs with a smaller score, between 0 and 1.
        mahalanobis: squared Mahalanobis distance of the last features to the nearest class.
        relative_mahalanobis: that distance minus the one to the Gaussian of all classes; NaN without classes.
    """

    score: float
    percentile: float
    mahalanobis: float
    relative_mahalanobis: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """Base class of all results, with the fields that need a fit of the predictor: None without one, and not shown.

    Attributes:
        novelty: distance from the training set; needs `predictor.fit`.
        in_distribution: the score is one that held-out inputs have, up to the rate of false alarms of the fit.
        predicted: name of the attribute that is the column `prediction` of tables.
        columns: names of further fields that are columns of tables.
    """

    novelty: Novelty | None = None
    in_distribution: bool | None = None
    predicted: ClassVar[str] = "prediction"
    columns: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.repr}
        shown = (f"{name}={value!r}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

    def row(self) -> dict[str, Any]:
        """Return the columns of this result in tables and files, without those that were not fitted.

        Values are numbers, texts, truth values, and lists and dictionaries of them.
        """
        values = {"prediction": getattr(self, self.predicted)} | {name: getattr(self, name) for name in self.columns}
        if self.novelty is not None:
            values |= {"novelty": self.novelty.score, "novelty_percentile": self.novelty.percentile}
            values |= {"in_distribution": self.in_distribution}
        return {name: value for name, value in values.items() if value is not None}


Own = TypeVar("Own", bound=Result)


def uncertainties(samples: Array, threshold: float, paired: bool = False) -> list[Uncertainty]:
    """Return the uncertainty of each of B choices from samples (S, B, C)."""
    num_samples, number, _ = samples.shape
    # A single sample has no spread to test against.
    p_values = top_two_p_values(samples, paired=paired) if num_samples > 1 else np.full(number, np.nan)
    columns = {
        "probability": top_probability(samples),
        "std": top_std(samples),
        "p_value": p_values,
        "entropy": predictive_entropy(samples),
        "aleatoric": expected_entropy(samples),
        "epistemic": mutual_information(samples),
    }
    rows = ({name: float(column[i]) for name, column in columns.items()} for i in range(number))
    return [Uncertainty(significant=row["p_value"] < threshold, num_samples=num_samples, **row) for row in rows]


def deviation(samples: Array) -> Array:
    """Return the standard deviation over the samples, the first axis; 0 for a single one."""
    return samples.std(axis=0, ddof=1) if len(samples) > 1 else np.zeros(samples.shape[1:])


def mean(values: Sequence[float] | Array) -> float:
    """Return the mean; NaN for none."""
    return float(np.mean(values)) if len(values) else math.nan


class Predictions(Sequence[Own], Generic[Own]):
    """Results of a list of inputs, in their order."""

    def __init__(self, results: Iterable[Own]) -> None:
        self._results = list(results)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Own: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions[Own]: ...
    def __getitem__(self, index: int | slice) -> Own | Predictions[Own]:
        return Predictions(self._results[index]) if isinstance(index, slice) else self._results[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._results))

    def _repr_html_(self) -> str:
        """Return a table of the first results for a notebook."""
        more = len(self) - SHOWN
        note = f"{len(self)} results" + (f", the first {SHOWN} of them" if more > 0 else "")
        return tables.as_html([result.row() for result in self._results[:SHOWN]], note)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each input; see [`Result.row`][hf_bam.prediction.Result.row]."""
        import pandas as pd

        return pd.DataFrame([result.row() for result in self._results])

    @property
    def num_samples(self) -> Array:
        """Number of samples of each input, (B,)."""
        return np.array([result.num_samples for result in self._results])  # type: ignore[attr-defined]

    @property
    def samples(self) -> Array:
        """All samples, (S, B, ...); NaN where adaptive sampling stopped early."""
        parts = [result.samples for result in self._results]  # type: ignore[attr-defined]
        if not parts:
            return np.zeros((0, 0))
        out = np.full((max(map(len, parts)), len(parts), *parts[0].shape[1:]), np.nan)
        for index, part in enumerate(parts):
            out[: len(part), index] = part
        return out
