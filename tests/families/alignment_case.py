"""Attention call of many equal queries, for samples of latent alignments."""

from dataclasses import dataclass, field
from typing import Any

import torch

from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime
from hf_bam.families import AlignmentFamily, CategoricalFamily

PROBABILITIES = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])


@dataclass
class Sampled:
    """Attention call of many equal queries, whose positions 1 and 5 are masked."""

    queries: int
    family: AlignmentFamily = field(default_factory=CategoricalFamily)
    heads: int = 2
    training: bool = False

    def call(self) -> Any:
        layer = BamLayer(self.family, Runtime(), head_dim=4).train(self.training)
        shape = (1, self.heads, self.queries, 6)
        query, key = torch.zeros(*shape[:3], 4), torch.zeros(1, self.heads, 6, 4)
        allowed = (PROBABILITIES > 0)[None, None, None]
        return AttentionCall(layer, 0, query, key, key, AttentionMask(shape, allowed), scale=1.0)

    def log_p(self) -> torch.Tensor:
        return PROBABILITIES.log().expand(1, self.queries, 6)

    def samples(self) -> torch.Tensor:
        """Return samples of the alignment, (queries, 6)."""
        return self.family.draw(self.log_p(), self.call())[0]
