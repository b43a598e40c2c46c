"""Novelty of an input: distance of its features from those of the training set.

Class-conditional Gaussians with one covariance matrix (Lee et al., 2018), relative to one Gaussian of all features
(Ren et al., 2021). Covariance matrices are shrunk by the formula of Ledoit and Wolf. The novelty is the sum of the
Mahalanobis distances of several layers, each in units of its standard deviation on held-out inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def scores(self, features: Array) -> dict[str, Array]:
        """Return the distances of features, (B, D), by name; without classes there is no relative one."""
        found = {"mahalanobis": self.mahalanobis(features)}
        several = len(self.means) > 1
        return found | ({"relative_mahalanobis": self.relative_mahalanobis(features)} if several else {})


@dataclass(frozen=True)
class LayerGaussians:
    """Gaussians of the features of several layers, and the sum of their standardised distances.

    Relative distances are not part of it: with few classes they ignore most directions, and unknown inputs then have
    smaller ones than known inputs.

    Attributes:
        layers: Gaussians by the name of the layer; the last one is that before the head.
        center: (L,) mean Mahalanobis distance of held-out inputs in each layer.
        scale: (L,) standard deviation of these distances.
    """

    layers: dict[str, FeatureGaussians]
    center: Array
    scale: Array

    @classmethod
    def fit(cls, features: Mapping[str, Array], labels: Array, held_out: Mapping[str, Array]) -> LayerGaussians:
        """Return the Gaussians of a training set, in single precision.

        Args:
            features: (B, D) by the name of the layer.
            labels: (B,) class indices; each class has to occur.
            held_out: (N, D) by the name of the layer, features of inputs that are not part of the training set.
        """
        arrays = {name: FeatureGaussians.fit(x, labels).arrays() for name, x in features.items()}
        layers = {
            name: FeatureGaussians(**{key: array.astype(np.float32) for key, array in own.items()})
            for name, own in arrays.items()
        }
        distances = _distances(layers, held_out)
        scale = np.maximum(distances.std(axis=1), np.finfo(np.float32).tiny)
        return cls(layers, distances.mean(axis=1).astype(np.float32), scale.astype(np.float32))

    def scores(self, features: Mapping[str, Array]) -> dict[str, Array]:
        """Return the distances before the head and the novelty by name, (B,) each."""
        standardised = (_distances(self.layers, features) - self.center[:, None]) / self.scale[:, None]
        name, gaussians = list(self.layers.items())[-1]
        return {**gaussians.scores(features[name]), "novelty": standardised.sum(axis=0)}


def _distances(layers: Mapping[str, FeatureGaussians], features: Mapping[str, Array]) -> Array:
    """Return the Mahalanobis distance in each layer, (L, B)."""
    return np.stack([own.mahalanobis(features[name]) for name, own in layers.items()])


def _whitening(centered: Array) -> Array:
    """Return ``W`` with ``W' W`` the inverse of the shrunk covariance of vectors of mean 0."""
    covariance = LedoitWolf(assume_centered=True).fit(centered).covariance_
    # Directions without any variance, and a training set of equal vectors, keep a finite distance.
    covariance = covariance + 1e-12 * max(float(np.trace(covariance)) / len(covariance), 1.0) * np.eye(len(covariance))
    return solve_triangular(np.linalg.cholesky(covariance), np.eye(len(covariance)), lower=True)


def percentiles(reference: Array, scores: Array) -> Array:
    """Return the share of reference scores that lie below each score, (B,), between 0 and 1."""
    return np.searchsorted(np.sort(reference), scores, side="left") / len(reference)
