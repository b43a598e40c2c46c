"""Cross-attention of the recurrent decoder, through transformers' attention interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration import RecurrentConfig

WITHOUT_WEIGHTS = ("sdpa",)
"""Attention implementations that compute no matrix of weights."""


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,  # (B, H, T, D)
    key: Tensor,  # (B, H, S, D)
    value: Tensor,  # (B, H, S, D)
    attention_mask: Tensor | None,  # (B, 1, 1, S), boolean
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Return the output (B, T, H, D) and the weights (B, H, T, S) of soft attention."""
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = drop(scores.softmax(dim=-1), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class RecurrentAttention(nn.Module):
    """Attention of decoder states (queries) over encoder states (keys and values).

    The keys and values of a source are the same at every step, so `project` computes them once.
    """

    is_causal = False

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(config.hidden_size, config.hidden_size, bias=False) for _ in range(3)
        )

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of encoder states (B, S, H * D), (B, H, S, D) each."""
        return self._by_heads(self.k_proj(memory)), self._by_heads(self.v_proj(memory))

    def _by_heads(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self,
        hidden_states: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
        first_query: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the context vectors (B, T, H * D), and the weights (B, H, T, S) if they were computed.

        Args:
            hidden_states: (B, T, H * D) decoder states.
            attention_mask: (B, 1, 1, S), True where a key may be attended to.
            first_query: index of the first decoder state within the forward pass, where a call has only some of them.
        """
        name = self.config._attn_implementation
        if output_attentions and name in WITHOUT_WEIGHTS:
            name = "eager"
        function = eager_attention_forward if name == "eager" else ALL_ATTENTION_FUNCTIONS[name]
        output, weights = function(
            self,
            self._by_heads(self.q_proj(hidden_states)),
            key,
            value,
            attention_mask,
            scaling=self.scaling,
            dropout=self.dropout if self.training else 0.0,
            output_attentions=output_attentions,
            **({} if first_query is None else {"first_query": first_query}),
        )
        return output.flatten(start_dim=2), weights
