"""Novelty of an input: distance of its features from those of the training set.

Class-conditional Gaussians with one covariance matrix (Lee et al., 2018), relative to one Gaussian of all features
(Ren et al., 2021). Covariance matrices are shrunk by the formula of Ledoit and Wolf.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.covariance import LedoitWolf

Array = NDArray[Any]


@dataclass(frozen=True)
class FeatureGaussians:
    """Gaussians of feature vectors, one for each class and one for all.

    ``d_c(x) = |W (x - mean_c)|^2`` is the squared Mahalanobis distance to class c, and ``d_0(x)`` that to the Gaussian
    of all classes.

    Attributes:
        means: (C, D) mean of each class.
        whitening: (D, D) matrix ``W`` with ``W' W`` the inverse of the covariance within classes.
        center: (D,) mean of all features.
        total_whitening: (D, D) the same for the covariance of all features.
    """

    means: Array
    whitening: Array
    center: Array
    total_whitening: Array

    @classmethod
    def fit(cls, features: Array, labels: Array) -> FeatureGaussians:
        """Return the Gaussians of a training set.

        Args:
            features: (B, D).
            labels: (B,) class indices; each class has to occur.
        """
        features, labels = np.asarray(features, dtype=float), np.asarray(labels)
        if features.ndim != 2 or len(features) != len(labels) or len(features) < 2:
            raise ValueError(
                f"features has shape {features.shape} and labels {labels.shape}; expected (B, D) and (B,), B of at "
                "least 2."
            )
        classes = np.arange(labels.max() + 1)
        missing = sorted({*classes.tolist()} - {*labels.tolist()})
        if missing:
            raise ValueError(f"labels has no example of class {missing[0]}; each class needs some.")
        means = np.stack([features[labels == index].mean(axis=0) for index in classes])  # (C, D)
        center = features.mean(axis=0)
        return cls(means, _whitening(features - means[labels]), center, _whitening(features - center))

    def mahalanobis(self, features: Array) -> Array:
        """Return the squared distance to the nearest class, (B,)."""
        return self._distances(features).min(axis=1)

    def relative_mahalanobis(self, features: Array) -> Array:
        """Return the squared distance to the nearest class minus that to the Gaussian of all, (B,)."""
        background = (((features - self.center) @ self.total_whitening.T) ** 2).sum(axis=1)
        return self.mahalanobis(features) - background

    def _distances(self, features: Array) -> Array:
        """Return the squared distance to every class, (B, C)."""
        x, means = features @ self.whitening.T, self.means @ self.whitening.T
        squares = (x**2).sum(axis=1)[:, None] - 2 * x @ means.T + (means**2).sum(axis=1)
        return np.clip(squares, 0, None)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def _whitening(centered: Array) -> Array:
    """Return ``W`` with ``W' W`` the inverse of the shrunk covariance of vectors of mean 0."""
    covariance = LedoitWolf(assume_centered=True).fit(centered).covariance_
    # Directions without any variance, and a training set of equal vectors, keep a finite distance.
    covariance = covariance + 1e-12 * max(float(np.trace(covariance)) / len(covariance), 1.0) * np.eye(len(covariance))
    return solve_triangular(np.linalg.cholesky(covariance), np.eye(len(covariance)), lower=True)


def percentiles(reference: Array, scores: Array) -> Array:
    """Return the share of reference scores that lie below each score, (B,), between 0 and 1."""
    return np.searchsorted(np.sort(reference), scores, side="left") / len(reference)
