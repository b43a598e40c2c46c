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
        return self.fill(torch.empty(tuple(shape), device=device, dtype=dtype), generator)

    @abstractmethod
    def fill(self, noise: Tensor, generator: torch.Generator | None) -> Tensor:
        """Fills a tensor with draws of ``log z``, in place."""

    @abstractmethod
    def quantile(self, u: Tensor) -> Tensor:
        """``log z`` below which a draw falls with probability ``u``, for ``u`` within (0, 1)."""

    @abstractmethod
    def kl(self, log_mean: Tensor, log_psi: Tensor) -> Tensor:
        """KL(q || p) of each weight, in nats.

        Args:
            log_mean: ``log E_q[S]``, the log soft attention.
            log_psi: log of the prior attention ``Psi``; broadcasts against ``log_mean``.
        """
