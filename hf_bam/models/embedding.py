"""Word embeddings of the recurrent encoder-decoder."""

from __future__ import annotations

from torch import Tensor, nn


class ScaledEmbedding(nn.Embedding):
    """Embedding times the square root of its size.

    The weights have a variance of 1 / size, which suits an output layer that shares them; inputs have variance 1.
    """

    @property
    def scale(self) -> float:
        return float(self.embedding_dim**0.5)

    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids) * self.scale

    def mean(self, weights: Tensor) -> Tensor:
        """Return the mean embedding (..., D) of all tokens with these weights, (..., V)."""
        return weights.to(self.weight.dtype) @ self.weight * self.scale
