"""Adaptive sampling: early decisions on the significance of a prediction."""

from __future__ import annotations

import numpy as np
from scipy import stats


def critical_ratio(num_samples: int, threshold: float) -> float:
    """Return the ratio of mean difference to pooled deviation at which a two-sample t-test has this p-value."""
    t = stats.t.isf(threshold / 2, 2 * num_samples - 2)
    return float(t * np.sqrt(2 / num_samples))


def decide_early(samples: np.ndarray, total: int, threshold: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which inputs have a decision that the remaining samples are unlikely to change, and the decisions.

    The decision is *significant* when the t-test between the two most probable classes over all `total` samples has a
    p-value below `threshold`. After m samples the final lead of the first class over each other one is predicted by
    Student's t distribution, with the mean and deviation so far. It is widened by the error of the deviation, which
    sets the lead that the test requires. An input is significant when the probabilities of falling short of any other
    class add up to less than `error`, and not significant when the probability of a sufficient lead over some class is
    below `error`.

    Args:
        samples: (m, B, C) probabilities so far, m at least 2.
        error: probability of a wrong decision that is accepted at this look.

    Returns:
        Two arrays of booleans, (B,): decided, and significant.
    """
    drawn, remaining = samples.shape[0], total - samples.shape[0]
    first = samples.mean(axis=0).argmax(axis=-1)[:, None]  # (B, 1)
    leader = np.take_along_axis(samples, first[None], axis=-1)  # (m, B, 1)
    lead = leader - samples  # (m, B, C)
    pooled = np.sqrt((leader.var(axis=0, ddof=1) + samples.var(axis=0, ddof=1)) / 2)
    needed = critical_ratio(total, threshold) * pooled
    if remaining <= 0:
        short = (lead.mean(axis=0) <= needed).astype(float)
    else:
        future = remaining / total * lead.std(axis=0, ddof=1) * np.sqrt(1 / drawn + 1 / remaining)
        spread = np.hypot(future, needed * np.sqrt(remaining / total / (2 * (drawn - 1))))
        margin = lead.mean(axis=0) - needed
        distance = np.divide(margin, spread, out=np.where(margin > 0, np.inf, -np.inf), where=spread > 0)
        short = stats.t.sf(distance, drawn - 1)  # (B, C) probability that the lead over a class is too small
    np.put_along_axis(short, first, 0.0, axis=-1)
    significant = short.sum(axis=-1) < error
    insignificant = short.max(axis=-1) > 1 - error
    return significant | insignificant, significant


def schedule(total: int, first: int) -> list[int]:
    """Return the cumulative numbers of samples at which to decide: `first`, then doubling, up to `total`."""
    looks = [min(first, total)]
    while looks[-1] < total:
        looks.append(min(2 * looks[-1], total))
    return looks
