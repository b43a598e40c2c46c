"""Scores of out-of-distribution inputs, each higher for a more unusual input.

| name | score |
|---|---|
| `msp` | 1 minus the largest probability (Hendrycks and Gimpel, 2017) |
| `entropy` | entropy of the mean probabilities |
| `energy` | minus the logarithm of the sum of the exponential logits (Liu et al., 2020) |
| `max_logit` | minus the largest logit (Hendrycks et al., 2022) |
| `mutual_information` | disagreement between the samples |
| `mahalanobis`, `relative_mahalanobis` | distance of the features before the head (Lee et al. 2018, Ren et al. 2021) |
| `novelty` | sum of standardised distances over layers, see `hf_bam.evaluation.novelty` |
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from scipy.special import logsumexp

from .metrics import mutual_information, predictive_entropy, top_probability

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
