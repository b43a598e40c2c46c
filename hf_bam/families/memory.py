"""Latent variables of the memory: of the encoder's states, before the decoder attends to them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..objective import LatentKl, normal_kl
from .base import Call


class Memory(nn.Module, ABC):
    """Latent variable of the states of an encoder. It runs in every forward pass, also in mean mode."""

    @abstractmethod
    def forward(self, states: Tensor, mask: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """Return the states that the decoder attends to, and their mask.

        Args:
            states: (B, S, D) states of the encoder.
            mask: (B, S), False for padding.
            call: source of random numbers; it collects loss terms.
        """


class GaussianNetwork(nn.Module):
    """Mean and log standard deviation of a Gaussian, both linear functions of a vector.

    The parameters are not in `nn.Linear` modules, which PEFT and quantisers would take for layers of the model.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.mean_weight, self.mean_bias = parameters(width, size)
        self.sigma_weight, self.sigma_bias = parameters(width, size)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and ``log sigma`` for vectors (..., width), (..., size) each, in float32 or better."""
        with torch.autocast(vectors.device.type, enabled=False):
            return (
                exact_linear(vectors, self.mean_weight, self.mean_bias),
                exact_linear(vectors, self.sigma_weight, self.sigma_bias),
            )


class SentenceLatent(Memory):
    """Gaussian latent ``z`` of a whole text, as one more position of the memory (Bahuleyan et al. 2018).

    ``z ~ N(mu, diag(sigma^2))`` with both linear in the mean of the states, the prior is ``N(0, I)``, and a linear
    function of ``z`` is the state that follows those of the encoder. In mean mode ``z = mu``.

    Args:
        width: size of the encoder's states.
        size: size of ``z``.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.posterior = GaussianNetwork(width, size)
        self.output_weight, self.output_bias = parameters(size, width)

    def forward(self, states: Tensor, mask: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        mean, log_sigma = self.posterior(masked_mean(states, mask))  # (B, size)
        z = mean
        if call.is_random:
            noise = call.uniform(mean.shape[-1], per_head=False, per_query=False, first=0)[:, 0, 0]
            z = mean + log_sigma.exp() * torch.special.ndtri(noise).to(mean)
        if call.wants_terms:
            call.collect([LatentKl(normal_kl(mean, log_sigma).sum(dim=-1))])
        with torch.autocast(states.device.type, enabled=False):
            state = exact_linear(z, self.output_weight, self.output_bias)[:, None].to(states.dtype)
        return torch.cat([states, state], dim=1), torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)


class SentenceMemory(SentenceLatent):
    """Gaussian latent of a whole text as the only position of the memory, as in a variational autoencoder."""

    def forward(self, states: Tensor, mask: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        states, mask = super().forward(states, mask, call)
        return states[:, -1:], mask[:, -1:]


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the states that the mask allows, (B, D) for (B, S, D)."""
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    kept = mask.to(states)[..., None]
    return (states * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def exact_linear(vectors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return a linear function in float32 or better."""
    dtype = torch.promote_types(weight.dtype, torch.float32)
    return linear(vectors.to(dtype), weight.to(dtype), bias.to(dtype))


def parameters(inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Return weight and bias of a linear layer, initialised as those of `nn.Linear`."""
    bound = inputs**-0.5
    weight, bias = torch.empty(outputs, inputs).uniform_(-bound, bound), torch.empty(outputs).uniform_(-bound, bound)
    return nn.Parameter(weight), nn.Parameter(bias)
