"""Scores of out-of-distribution inputs, each higher for a more unusual input.

| name | score |
|---|---|
| `msp` | 1 minus the largest probability (Hendrycks and Gimpel, 2017) |
| `entropy` | entropy of the mean probabilities |
| `energy` | minus the logarithm of the sum of the exponential logits (Liu et al., 2020) |
| `max_logit` | minus the largest logit (Hendrycks et al., 2022) |
| `mutual_information` | disagreement between the samples |
| `mahalanobis`, `relative_mahalanobis` | distance of the features, see `hf_bam.evaluation.novelty` |
| `sampled_mahalanobis` | mean of `mahalanobis` over samples of the features |
| `feature_spread` | variance of the features over the samples, summed over whitened directions |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .metrics import mutual_information, predictive_entropy, top_probability
from .novelty import FeatureGaussians

Array = NDArray[Any]


def class_scores(logits: Array, probabilities: Array) -> dict[str, Array]:
    """Return the scores of the classes, (B,) each; `mutual_information` needs several samples.

    Args:
        logits: (S, B, C), of which energy and largest logit are means over the samples.
        probabilities: (S, B, C).
    """
    scores = {
        "msp": 1 - top_probability(probabilities),
        "entropy": predictive_entropy(probabilities),
        "energy": -logsumexp(logits, axis=-1).mean(axis=0),
        "max_logit": -logits.max(axis=-1).mean(axis=0),
    }
    return scores | ({"mutual_information": mutual_information(probabilities)} if len(logits) > 1 else {})


def feature_scores(gaussians: FeatureGaussians, features: Array) -> dict[str, Array]:
    """Return the distances of features, (B, D); without classes there is no relative one."""
    scores = {"mahalanobis": gaussians.mahalanobis(features)}
    several = len(gaussians.means) > 1
    return scores | ({"relative_mahalanobis": gaussians.relative_mahalanobis(features)} if several else {})


def sample_scores(gaussians: FeatureGaussians, features: Array) -> dict[str, Array]:
    """Return the scores of several samples of the features, (S, B, D)."""
    centered = (features - features.mean(axis=0)) @ gaussians.whitening.T
    return {
        "sampled_mahalanobis": np.mean([gaussians.mahalanobis(sample) for sample in features], axis=0),
        "feature_spread": (centered**2).sum(axis=(0, -1)) / (len(features) - 1),
    }
