"""One call of graph attention: noise and KL of every edge. Memory is linear in the number of edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..attention.layer import BamLayer
from ..attention.noise import random_bits, uniform
from ..families import ScoreFamily
from ..objective import KlTerm, kl_divergence


@dataclass(frozen=True, eq=False)
class EdgeCall:
    """Scores of the edges of a graph, whose softmax runs over the edges that enter the same node.

    An edge is what an entry of the attention matrix is for a sequence: the node that it enters is the query, the node
    that it leaves is the key. Posterior, prior distribution and KL are those of the family.

    Attributes:
        layer: Bayesian layer of the convolution.
        use: number of earlier uses of the layer in the same forward pass.
        scores: (E, H) ``phi`` of the edges, before the softmax.
        index: (E,) the node that each edge enters.
        num_nodes: number of such nodes; None: up to the highest index.
    """

    layer: BamLayer
    use: int
    scores: Tensor
    index: Tensor
    num_nodes: int | None = None

    @property
    def family(self) -> ScoreFamily:
        return self.layer.family

    def sample(self) -> Tensor:
        """Return ``phi + log z``, (E, H) in float32 or better; its softmax over the neighbours is a sample."""
        scores = _float32(self.scores)
        return scores + self.log_noise().to(scores.dtype)

    def log_noise(self) -> Tensor:
        """Return ``log z``, (E, H), a function of the seed, the head and the position of an edge in its list."""
        edges, heads = self.scores.shape
        seed = self.layer.noise_seed((1, edges, edges), self.use, self.scores.device)
        keys = seed.row_keys(1, heads, 1, self.scores.device)  # (1, H, 1, 2)
        return self.family.posterior.quantile(uniform(random_bits(keys, edges)))[0, :, 0].T

    def kl_term(self, key: Tensor) -> KlTerm:
        """Return the KL of the weights to the prior.

        Args:
            key: (E, H, D) features of the node that each edge leaves, in every head.
        """
        log_p = edge_log_softmax(_float32(self.scores), self.index, self.num_nodes)  # (E, H)
        logits = self.layer.prior.logits(key)  # type: ignore[operator, union-attr]
        log_psi = edge_log_softmax(logits.to(log_p.dtype), self.index, self.num_nodes)
        kl = kl_divergence(self.family.posterior, self.family.prior_distribution, log_p, log_psi)
        total = kl.sum(dim=1)[None]  # (1, E): a graph is one example
        return KlTerm(total, torch.full_like(total, kl.shape[1]))


def edge_log_softmax(scores: Tensor, index: Tensor, num_nodes: int | None = None) -> Tensor:
    """Return the log softmax of scores (E, H) over the edges with the same index (E,)."""
    if num_nodes is None:
        num_nodes = int(index.max()) + 1 if index.numel() else 0
    group = index[:, None].expand_as(scores)
    highest = scores.new_full((num_nodes, scores.shape[1]), torch.finfo(scores.dtype).min)
    highest = highest.scatter_reduce(0, group, scores.detach(), "amax")
    shifted = scores - highest[index]
    total = torch.zeros_like(highest).index_add(0, index, shifted.exp())
    return shifted - total[index].log()  # at least 1 within the logarithm


def _float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
