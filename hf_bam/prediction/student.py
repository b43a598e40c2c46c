"""Fit of a student: the distribution of the samples of an input, from one deterministic pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from sklearn.linear_model import RidgeCV

from .results import Array

PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""Ridge penalties among which leave-one-out errors choose."""
SMALLEST = 1e-6
"""Least standard deviation of a logit."""


@dataclass(frozen=True)
class StudentFit:
    """Gaussian of the logits of an input, given its logits and its features in one deterministic pass.

    The mean is a ridge regression beside the deterministic logits. The log of the standard deviation of each logit is
    another one, with the mean variance of the samples. All inputs have the same correlations.

    Attributes:
        shift: (D + 1, C) mean minus deterministic logits, from the features and 1.
        spread: (D + 1, C) log of the standard deviation, likewise.
        factor: (C, C) with the correlations ``factor @ factor.T``.
    """

    shift: Array
    spread: Array
    factor: Array

    def __post_init__(self) -> None:
        classes, shape = self.factor.shape[-1], self.shift.shape
        shapes = [self.shift.shape, self.spread.shape, self.factor.shape]
        if shapes != [(shape[0], classes), (shape[0], classes), (classes, classes)]:
            raise ValueError(f"The arrays of the student have shapes {shapes} that do not fit each other.")
        if not all(np.isfinite(array).all() for array in self.arrays().values()):
            raise ValueError("Some numbers of the student are not finite.")

    @classmethod
    def fit(cls, logits: Array, features: Array, samples: Array) -> StudentFit:
        """Return the fit to the samples of some inputs.

        Args:
            logits: (N, C) of the deterministic pass.
            features: (N, D) of the deterministic pass.
            samples: (S, N, C) logits of at least two samples.
        """
        mean, std = samples.mean(axis=0), samples.std(axis=0, ddof=1).clip(min=SMALLEST)
        shift, spread = ridge(features, mean - logits), ridge(features, np.log(std))
        predicted = np.exp(extended(features) @ spread)
        spread[-1] += 0.5 * np.log((std**2).mean(axis=0) / (predicted**2).mean(axis=0))  # keeps the mean variance
        residual = ((samples - mean) / predicted).reshape(-1, logits.shape[1])
        covariance = residual.T @ residual / len(residual)
        covariance /= np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
        values, vectors = np.linalg.eigh(covariance)  # a logit that all share makes it singular
        # In the precision of the file, so that nothing changes when the predictor is saved and loaded.
        parts = (shift, spread, vectors * np.sqrt(values.clip(min=0)))
        return cls(*(part.astype(np.float32) for part in parts))

    def draw(self, logits: Array, features: Array, noise: Array) -> Array:
        """Return samples of the logits, (S, B, C), from deterministic ones, (B, C), features, (B, D), and standard
        normal noise, (S, B, C)."""
        x = extended(features)
        if (x.shape[1], logits.shape[1]) != self.shift.shape:
            raise ValueError(
                f"The student has {self.shift.shape[0] - 1} features and {self.shift.shape[1]} outputs, this model "
                f"has {features.shape[1]} and {logits.shape[1]}; distill the predictor again."
            )
        return logits + x @ self.shift + np.exp(x @ self.spread) * (noise @ self.factor.T)

    def arrays(self) -> dict[str, Array]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> StudentFit:
        return cls(**{item.name: arrays[item.name] for item in fields(cls)})


def extended(features: Array) -> Array:
    """Return features with a column of ones, (N, D + 1)."""
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def ridge(features: Array, targets: Array) -> Array:
    """Return the coefficients of a ridge regression for features and 1, (D + 1, C); features are standardised."""
    center, scale = features.mean(axis=0), features.std(axis=0) + 1e-12
    fitted = RidgeCV(PENALTIES).fit((features - center) / scale, targets)
    slopes = fitted.coef_.reshape(targets.shape[1], -1) / scale  # (C, D)
    return np.concatenate([slopes.T, np.reshape(fitted.intercept_ - slopes @ center, (1, -1))])
