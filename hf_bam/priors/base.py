"""What every prior over keys offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn


class Prior(nn.Module, ABC):
    """Prior attention over the keys of a head, ``Psi``: one value per key, normalised over the visible keys.

    ``takes`` names the constructor's arguments: ``head_dim`` and fields of [`BamConfig`][hf_bam.BamConfig].
    """

    takes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def forward(self, key: Tensor, visible: Tensor) -> Tensor | None:
        """Log prior attention, or None for a prior that asks for no KL.

        Args:
            key: (B, H, S, D).
            visible: boolean, broadcastable to (B, H, T, S): which keys a query may attend to.

        Returns:
            Broadcastable to (B, H, T, S), in float32 or better; meaningless where ``visible`` is False.
        """


def log_softmax_visible(logits: Tensor, visible: Tensor) -> Tensor:
    """Log softmax over the visible entries of the last dimension; finite also where nothing is visible."""
    return logits.masked_fill(~visible, torch.finfo(logits.dtype).min).log_softmax(dim=-1)
