"""Predictions of a graph model and measures of their uncertainty."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...evaluation.comparison import measure
from ...patching import is_patched, sampling

MEAN, SAMPLES, DROPOUT, BOTH = "mean", "samples", "MC dropout", "samples and dropout"


@torch.no_grad()
def predictions(model: nn.Module, graph: Any, num_samples: int, seed: int = 0) -> dict[str, Tensor]:
    """Return class probabilities of all nodes, (S, N, C), by method.

    `"mean"` is one deterministic pass. `"samples"` draws the attention; `"MC dropout"`, for plain models, keeps
    dropout on; `"samples and dropout"` does both, as the paper does on graphs.
    """
    found = {MEAN: _probabilities(model.eval(), graph)[None]}
    if is_patched(model):
        with sampling(model, seed=seed):
            found[SAMPLES] = torch.stack([_probabilities(model, graph) for _ in range(num_samples)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model.train()
        random = torch.stack([_probabilities(model, graph) for _ in range(num_samples)])
    model.eval()
    return {**found, BOTH if is_patched(model) else DROPOUT: random}


def _probabilities(model: nn.Module, graph: Any) -> Tensor:
    probabilities: Tensor = model(graph.x, graph.edge_index).softmax(dim=-1)
    return probabilities


def measures(samples: dict[str, Tensor], labels: Tensor, nodes: Tensor) -> dict[str, dict[str, float]]:
    """Return the measures of each method on some nodes.

    Args:
        nodes: (N,) booleans.
    """
    return {method: measure(labels[nodes].numpy(), own[:, nodes].double().numpy()) for method, own in samples.items()}
