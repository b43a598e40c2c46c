"""Prior that is the same for all keys."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Prior, masked_log_softmax


class FixedPrior(Prior):
    """Uniform over the keys that the mask allows. (A constant Gamma shape, `alpha`, is part of the distribution.)"""

    def logits(self, key: Tensor) -> Tensor:
        dtype = torch.promote_types(key.dtype, torch.float32)
        return torch.zeros((), dtype=dtype, device=key.device).expand(key.shape[:-1])

    def forward(self, key: Tensor, mask: Tensor) -> Tensor:
        """Return the log prior attention in the shape of the mask: keys and heads are alike."""
        return masked_log_softmax(self.logits(key).new_zeros(()).expand(mask.shape), mask)
