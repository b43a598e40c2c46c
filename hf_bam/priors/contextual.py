"""A prior computed from the keys by a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import Prior, log_softmax_visible


class ContextualPrior(Prior):
    """``Psi = softmax_j(F2(relu(F1(k_j))))``, the two layers shared by the heads (Fan et al. 2020, section 3.2)."""

    takes = ("head_dim", "d_mid")

    def __init__(self, head_dim: int, d_mid: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(head_dim, d_mid)
        # A bias here would cancel in the softmax.
        self.score = nn.Linear(d_mid, 1, bias=False)

    def forward(self, key: Tensor, visible: Tensor) -> Tensor:
        hidden = torch.relu(self.hidden(key.to(self.hidden.weight.dtype)))  # (B, H, S, d_mid)
        logits = self.score(hidden).transpose(-1, -2)  # (B, H, 1, S)
        return log_softmax_visible(logits.to(torch.promote_types(logits.dtype, torch.float32)), visible)
