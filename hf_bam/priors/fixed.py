"""A prior that knows nothing of the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Prior, log_softmax_visible


class FixedPrior(Prior):
    """Uniform over the visible keys. (A constant Gamma shape, `alpha`, is a matter of the posterior's KL.)"""

    def forward(self, key: Tensor, visible: Tensor) -> Tensor:
        dtype = torch.promote_types(key.dtype, torch.float32)
        return log_softmax_visible(torch.zeros((), dtype=dtype, device=key.device).expand(visible.shape), visible)
