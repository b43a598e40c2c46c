"""How much doubt there is in an input's draws, and of which kind.

Total = aleatoric + epistemic: H[E p] = E H[p] + I. The first part is in every single draw, the second is the
disagreement between draws. All functions take (S, ..., C) probabilities with any number of middle dimensions, e.g.
(S, B, T, V) for tokens, and return the middle dimensions; (B, C) counts as one draw.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from ._arrays import Array, Numbers, draws


def predictive_entropy(samples: Numbers) -> Array:
    """(B,) total uncertainty in nats: the entropy of the mean over draws, H[E p] = -sum_c E p_c log E p_c."""
    return entropy(draws(samples).mean(axis=0))


def expected_entropy(samples: Numbers) -> Array:
    """(B,) aleatoric uncertainty in nats: the mean over draws of the entropy, E H[p]."""
    return entropy(draws(samples)).mean(axis=0)


def mutual_information(samples: Numbers) -> Array:
    """(B,) epistemic uncertainty in nats: H[E p] - E H[p], what the draws disagree about; 0 for one draw."""
    array = draws(samples)
    # Jensen: never negative, but for rounding.
    return (entropy(array.mean(axis=0)) - entropy(array).mean(axis=0)).clip(min=0)


def top_probability(samples: Numbers) -> Array:
    """(B,) the highest mean probability; the higher, the more certain."""
    return np.asarray(draws(samples).mean(axis=0).max(axis=-1))


def top_std(samples: Numbers) -> Array:
    """(B,) standard deviation over draws (divided by S - 1) of the class with the highest mean; 0 for one draw."""
    array = draws(samples)
    if len(array) == 1:
        return np.zeros(array.shape[1:-1])
    top = array.mean(axis=0, keepdims=True).argmax(axis=-1, keepdims=True)  # (1, ..., 1)
    return np.asarray(np.take_along_axis(array, top, axis=-1)[..., 0].std(axis=0, ddof=1))


def entropy(probabilities: Array) -> Array:
    """-sum_c p log p over the last axis, with 0 log 0 = 0."""
    return np.asarray(entr(probabilities).sum(axis=-1))
