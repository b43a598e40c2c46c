"""What every posterior over attention weights offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor


class Posterior(ABC):
    """The law of the unnormalised weights, ``S_ij = P_ij * z_ij`` with ``E[z_ij] = 1``.

    ``P`` is the soft attention, so its softmax scores plus ``log z`` are the scores of a sample:
    ``W_i = softmax_j(phi_ij + log z_ij)``. Subclasses are frozen dataclasses whose field names are
    fields of [`BamConfig`][hf_bam.BamConfig]; everything happens in log space.
    """

    def log_noise(
        self,
        shape: Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Independent draws of ``log z`` with ``E[z] = 1``; always finite."""
        u = torch.rand(tuple(shape), device=device, dtype=dtype, generator=generator)
        return self.quantile(u.clamp_(min=torch.finfo(dtype).eps / 4))  # the generator may return 0

    @abstractmethod
    def quantile(self, u: Tensor) -> Tensor:
        """``log z`` below which a draw falls with probability ``u``, for ``u`` within (0, 1)."""
