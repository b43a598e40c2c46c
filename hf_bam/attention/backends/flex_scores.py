"""Functions of scores for FlexAttention: noise and terms of the KL, in operations that its kernels have.

They read tensors alone: torch makes a symbol of a Python number that differs between calls, which FlexAttention does
not take. Random numbers come from integer arithmetic, as in `noise.py`, and there are no operators with a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...families import Lognormal
from ..noise import NoiseSeed
from .distributions import terms
from .spec import Spec

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def number(value: float, like: Tensor) -> Tensor:
    """Return a 0-dimensional tensor in single precision."""
    return torch.tensor(value, dtype=torch.float32, device=like.device)


def model_scores(spec: Spec, like: Tensor) -> ScoreMod:
    """Return the function that caps the scores and adds their bias, as the model does."""
    bias = None if spec.mask.bias is None else spec.mask.bias.detach().float().expand(spec.mask.shape)
    cap = None if spec.softcap is None else number(spec.softcap, like)

    def scores(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if bias is None else score + bias[b, h, i, j]

    return scores


def noisy_scores(spec: Spec, like: Tensor) -> ScoreMod:
    """Return the function that adds the log noise to the scores of the model."""
    plain = model_scores(spec, like)
    if spec.noise is not None:
        shared = spec.noise.squeeze(2)  # (B, H, S)
        return lambda score, b, h, i, j: plain(score, b, h, i, j) + shared[b, h, j]
    found: dict[str, Any] = terms(spec.posterior, None)
    spread, offset = number(found["spread"], like), number(found["offset"], like)
    first, second = row_keys(spec.seed, spec.mask.shape, like)
    standard = normal if isinstance(spec.posterior, Lognormal) else log_exponential

    def scores(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        noise = standard(uniform(first[b, h, i] + j * -1640531527, second[b, h, i]))
        return plain(score, b, h, i, j) + noise * spread + offset

    return scores


def row_keys(seed: NoiseSeed, shape: tuple[int, int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two keys of every row, (B, H, T) in int32 each."""
    first, second = seed.row_keys(*shape[:3], like.device).unbind(-1)
    return first.contiguous(), second.contiguous()


def uniform(x: Tensor, second: Tensor) -> Tensor:
    """Return a number in (0, 1) from the keys of a row, the first one advanced to a key: the hash of `noise.py`."""
    x = x ^ ((x >> 17) & 0x7FFF)
    x = x * -312814405
    x = (x ^ ((x >> 11) & 0x1FFFFF)) + second
    x = x * -1404298415
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x * 830770091
    x = x ^ ((x >> 14) & 0x3FFFF)
    u = (((x >> 1) & 0x7FFFFFFF).to(torch.float32) + 0.5) * 4.656612873077393e-10
    return torch.clamp(u, max=0.9999999403953552)


def log_exponential(u: Tensor) -> Tensor:
    """Return the logarithm of an exponential number."""
    return torch.log(-torch.log1p(-u))


def normal(u: Tensor) -> Tensor:
    """Return a normal number: the polynomials of `kernel/functions.h`, because kernels of GPUs have no `ndtri`."""
    w = -torch.log(4.0 * u * (1.0 - u))
    c, t = w - 2.5, torch.sqrt(torch.clamp(w, min=0.0)) - 3.40932184
    center = 3.384933e-08 * c + 4.84906352e-07
    center = center * c - 4.90944256e-06
    center = center * c - 6.20489057e-06
    center = center * c + 3.08834377e-04
    center = center * c - 1.77305112e-03
    center = center * c - 5.90777818e-03
    center = center * c + 3.48802692e-01
    center = center * c + 2.12331349
    tail = -2.57927279e-05 * t - 2.62283105e-04
    tail = tail * t + 1.01459534e-03
    tail = tail * t - 1.51762808e-03
    tail = tail * t + 1.96835064e-03
    tail = tail * t - 3.50110962e-03
    tail = tail * t + 5.53153878e-03
    tail = tail * t + 1.42371031
    tail = tail * t + 4.58794563
    return (2.0 * u - 1.0) * torch.where(w < 5.0, center, tail)


def log_gamma_term(shift: Tensor) -> ScoreMod:
    """Return ``log(1 + lgamma(alpha))`` for ``log alpha = score + shift``; lgamma is never below -0.13."""

    def scores(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        log_alpha = score + shift
        return torch.log(1.0 + log_gamma_1p(torch.exp(log_alpha)) - log_alpha)

    return scores


def log_gamma_1p(a: Tensor) -> Tensor:
    """Return ``log Gamma(1 + a)`` for a >= 0: recurrence to 5 + a, then Stirling's series, as in the kernel."""
    x = a + 5.0
    r = 1.0 / x
    series = r * (0.0833333333 - r * r * (0.00277777778 - r * r * 0.000793650794))
    product = torch.log((a + 1.0) * (a + 2.0)) + torch.log((a + 3.0) * (a + 4.0))
    return (x - 0.5) * torch.log(x) - x + 0.918938533 + series - product


def normal_kl_term(constant: Tensor, slope: Tensor) -> ScoreMod:
    """Return ``log(1 + KL)`` of two normal distributions whose means differ by the score."""
    return lambda score, b, h, i, j: torch.log(1.0 + constant + slope * score * score)
