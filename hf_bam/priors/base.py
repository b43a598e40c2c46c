"""Interface of the priors over keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

import torch
from torch import Tensor, nn

Self = TypeVar("Self", bound="Prior")


class Prior(nn.Module, ABC):
    """Prior attention over the keys of a head, ``Psi``: one value per key, normalised over the keys of a mask."""

    @classmethod
    def build(cls: type[Self], head_dim: int, d_mid: int) -> Self:
        """Return a prior for keys of this size; `d_mid` is the width of its network, if it has one."""
        return cls()

    @abstractmethod
    def logits(self, key: Tensor) -> Tensor:
        """Return the logits of keys (..., D), (...) in float32 or better. Their softmax is the prior attention."""

    def forward(self, key: Tensor, mask: Tensor) -> Tensor:
        """Return the log prior attention.

        Args:
            key: (B, H, S, D).
            mask: boolean, broadcastable to (B, H, T, S): the keys that a query may attend to.

        Returns:
            Broadcastable to (B, H, T, S), in float32 or better; meaningless where ``mask`` is False.
        """
        return masked_log_softmax(self.logits(key).unsqueeze(-2), mask)


def masked_log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the log softmax over the entries that the mask allows; finite also where it allows none."""
    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min).log_softmax(dim=-1)
