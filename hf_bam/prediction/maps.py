"""Attention of a model to its inputs: mean, standard deviation over samples, and prior, for pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..attention.sampling import Sampling
from ..patching.state import base_model, patch_of
from .copies import in_evaluation


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights of one attention module.

    Attributes:
        mean: (B, H, T, S) mean over the samples.
        std: (B, H, T, S) standard deviation over the samples.
        prior: (B, H, 1 or T, S) prior attention ``Psi``; None for a family without a prior over keys.

    Keys that a query may not attend to have weight 0.
    """

    mean: Tensor
    std: Tensor
    prior: Tensor | None = None


@torch.no_grad()
def attention_maps(
    model: Any, inputs: Mapping[str, Tensor], num_samples: int = 16, seed: int = 0
) -> dict[str, AttentionMap]:
    """Return the attention of a patched model to some inputs, by the path of the attention module.

    A module that runs in several layers has the weights of its last use.

    Args:
        model: a patched transformers model, whose mode stays as it is.
        inputs: arguments of its forward: token ids, or an image and the words of its caption.
        num_samples: number of samples of the attention, at least 2.
    """
    if num_samples < 2:
        raise ValueError(f"num_samples={num_samples!r} is not valid; a standard deviation needs 2 or more.")
    patch, root = patch_of(model), in_evaluation(base_model(model))
    paths = {module.bam.number: path for path, module in root.named_modules() if hasattr(module, "bam")}
    sums: dict[int, tuple[Tensor, Tensor]] = {}
    priors: dict[int, Tensor | None] = {}
    for index in range(num_samples):
        with patch.runtime.sample(Sampling(seed + index)), patch.runtime.observing() as observed:
            root(**inputs)
        last = {layer.number: (layer, call, weights.double()) for layer, call, weights in observed}
        for number, (layer, call, weights) in last.items():
            total, squares = sums.get(number, (0.0, 0.0))
            sums[number] = total + weights, squares + weights**2
            if number not in priors:
                priors[number] = prior_of(layer, call)
    maps = {}
    for number, (total, squares) in sums.items():
        mean = total / num_samples
        variance = (squares - num_samples * mean**2) / (num_samples - 1)
        maps[paths[number]] = AttentionMap(mean, variance.clamp(min=0).sqrt(), priors[number])
    return maps


def prior_of(layer: Any, call: Any) -> Tensor | None:
    """Return the prior attention to the keys of a call, (B, H, 1 or T, S); None without a prior over keys."""
    prior = getattr(layer, "prior", None)
    if prior is None:
        return None
    mask = call.mask.rows(slice(0, call.query.shape[2]), call.query.device)
    found: Tensor = prior(call.key, mask).exp().double()
    return found.masked_fill(~mask, 0.0)
