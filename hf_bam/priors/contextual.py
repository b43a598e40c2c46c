"""Prior computed from the keys by a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .base import Prior


class ContextualPrior(Prior):
    """``Psi = softmax_j(F2(relu(F1(k_j))))``, the two layers shared by the heads (Fan et al. 2020, section 3.2).

    The parameters are not in `nn.Linear` modules, which PEFT and quantisers would take for layers of the model. They
    are initialised as those of `nn.Linear`; a bias of F2 would cancel in the softmax.
    """

    def __init__(self, head_dim: int, d_mid: int) -> None:
        super().__init__()
        self.hidden_weight = nn.Parameter(_uniform(d_mid, head_dim, fan_in=head_dim))
        self.hidden_bias = nn.Parameter(_uniform(d_mid, fan_in=head_dim))
        self.logit_weight = nn.Parameter(_uniform(1, d_mid, fan_in=d_mid))

    @classmethod
    def build(cls, head_dim: int, d_mid: int) -> ContextualPrior:
        return cls(head_dim, d_mid)

    def logits(self, key: Tensor) -> Tensor:
        hidden = linear(key.to(self.hidden_weight.dtype), self.hidden_weight, self.hidden_bias)  # (..., d_mid)
        logits = linear(torch.relu(hidden), self.logit_weight).squeeze(-1)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-(fan_in**-0.5), fan_in**-0.5)
