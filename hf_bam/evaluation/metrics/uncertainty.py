"""Total, aleatoric and epistemic uncertainty of an input's samples.

Total = aleatoric + epistemic: H[E p] = E H[p] + I. The aleatoric part is the mean entropy of a sample, the epistemic
part is the disagreement between samples. All functions take (S, ..., C) probabilities with any number of middle
dimensions, e.g. (S, B, T, V) for tokens, and return the middle dimensions; (B, C) is one sample.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from ._arrays import Array, Numbers, class_samples


def predictive_entropy(samples: Numbers) -> Array:
    """Return the total uncertainty (B,) in nats: the entropy of the mean, H[E p] = -sum_c E p_c log E p_c."""
    return entropy(class_samples(samples).mean(axis=0))


def expected_entropy(samples: Numbers) -> Array:
    """Return the aleatoric uncertainty (B,) in nats: the mean over samples of the entropy, E H[p]."""
    return entropy(class_samples(samples)).mean(axis=0)


def mutual_information(samples: Numbers) -> Array:
    """Return the epistemic uncertainty (B,) in nats: H[E p] - E H[p]; 0 for one sample."""
    array = class_samples(samples)
    # Not negative by Jensen's inequality; a negative difference is rounding.
    return (entropy(array.mean(axis=0)) - entropy(array).mean(axis=0)).clip(min=0)


def top_probability(samples: Numbers) -> Array:
    """Return the highest mean probability (B,), the confidence."""
    return np.asarray(class_samples(samples).mean(axis=0).max(axis=-1))


def top_std(samples: Numbers) -> Array:
    """Return the standard deviation (B,), divided by S - 1, of the class with the highest mean; 0 for one sample."""
    array = class_samples(samples)
    if len(array) == 1:
        return np.zeros(array.shape[1:-1])
    top = array.mean(axis=0, keepdims=True).argmax(axis=-1, keepdims=True)  # (1, ..., 1)
    return np.asarray(np.take_along_axis(array, top, axis=-1)[..., 0].std(axis=0, ddof=1))


def entropy(probabilities: Array) -> Array:
    """Return -sum_c p log p over the last axis, with 0 log 0 = 0."""
    return np.asarray(entr(probabilities).sum(axis=-1))
