"""Gaussian latent variables of all states, with an autoregressive prior (GAVAM, Fang et al.)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..objective import LatentKl, normal_kl
from .base import Call
from .memory import GaussianNetwork, Memory, exact_linear, parameters


class GaussianSequence(Memory):
    """``z_t ~ N(mu(h_t), diag(sigma(h_t)^2))`` in the place of every state, with a prior ``p(z_t | z_1 ... z_(t-1))``.

    The prior is Gaussian, with mean and standard deviation from an LSTM over the latent variables before. Its KL is
    analytic given these, and summed over the positions. In mean mode ``z = mu``.

    Args:
        width: size of the encoder's states.
        size: size of a latent variable.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.posterior = GaussianNetwork(width, size)
        self.output_weight, self.output_bias = parameters(size, width)
        self.lstm = nn.LSTM(size, width, batch_first=True)
        self.prior = GaussianNetwork(width, size)

    def forward(self, states: Tensor, mask: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        mean, log_sigma = self.posterior(states)  # (B, S, size)
        z = mean
        if call.is_random:
            noise = call.uniform(mean.shape[-1], per_head=False, first=0)[:, 0]  # (B, S, size)
            z = mean + log_sigma.exp() * torch.special.ndtri(noise).to(mean)
        if call.wants_terms:
            call.collect([LatentKl(self.kl(z, mean, log_sigma, mask))])
        with torch.autocast(states.device.type, enabled=False):
            return exact_linear(z, self.output_weight, self.output_bias).to(states.dtype), mask

    def kl(self, z: Tensor, mean: Tensor, log_sigma: Tensor, mask: Tensor) -> Tensor:
        """Return the KL of each example, (B,), to the prior of every latent variable given those before it."""
        before = nn.functional.pad(z * mask[..., None], (0, 0, 1, -1))
        with torch.autocast(z.device.type, enabled=False):
            hidden, _ = self.lstm(before.to(self.output_weight.dtype))
        prior_mean, prior_log_sigma = self.prior(hidden)
        kl = normal_kl(mean - prior_mean, log_sigma, prior_log_sigma).sum(dim=-1)
        return kl.masked_fill(~mask, 0.0).sum(dim=1)
