"""Temperature scaling of draws."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from .results import Array


def best_temperature(samples: Array, labels: Array) -> float:
    """The temperature that minimises the negative log-likelihood of the mean over draws.

    Args:
        samples: (S, B, C) probabilities at temperature 1; their logarithms serve as logits.
        labels: (B,) indices.
    """
    logits = np.log(np.clip(samples, 1e-300, None))

    def loss(log_temperature: float) -> float:
        log_p = log_softmax(logits / np.exp(log_temperature), axis=-1)[:, np.arange(len(labels)), labels]  # (S, B)
        return float(-logsumexp(log_p, axis=0).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded").x))
