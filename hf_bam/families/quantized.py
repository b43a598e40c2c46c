"""Latent memory: the decoder attends to codes of the encoder's states, or to Gaussian variables (Fang et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..fields import setting
from .base import Call, Family
from .codebook import Codebook
from .memory import Memory, SentenceMemory
from .sequence import GaussianSequence


@dataclass(frozen=True)
class QuantizedFamily(Family):
    """States of the encoder are replaced by a latent variable before the decoder attends to them.

    With codes (DAVAM) every state becomes its nearest code. The loss gets ``beta ||h - e||^2 / D``, the commitment of
    states to their codes, and codes follow the states by a moving average. An autoregressive prior of the code
    sequences is fitted afterwards, by [`hf_bam.fit_code_prior`][hf_bam.fit_code_prior]. The Gaussian counterparts have
    their KL in the loss.
    """

    stage = "memory"
    defaults: ClassVar[Mapping[str, Any]] = {"kl_weight": 1.0}

    latent: str = setting("codes", choices=("codes", "gaussian", "sentence"))
    """Latent variable: `"codes"`, the nearest code of every state (DAVAM); `"gaussian"`, a Gaussian for every state,
    with an autoregressive prior (GAVAM); `"sentence"`, one Gaussian for the text, with the prior N(0, I) (VAE)."""
    num_codes: int = setting(512, least=2, most=2**20)
    """Number of codes, K."""
    decay: float = setting(0.99, least=0, below=1)
    """Decay of the moving averages that the codes are."""
    revive_below: float = setting(0.03, least=0, below=1)
    """Fraction of the mean count of states below which a code is moved to a state of the batch. 0: never."""
    commitment: float = setting(5.0, least=0, most=1e6)
    """Weight beta of the commitment loss, the mean squared distance of states to their codes."""
    commitment_start: float = setting(0.1, least=0, most=1e6)
    """Its weight at the first optimizer step, from which it grows linearly."""
    commitment_steps: int = setting(1000, least=0)
    """Optimizer steps of this growth. 0: the weight is `commitment` from the start."""
    latent_size: int = setting(32, least=1, most=2**13)
    """Size of Gaussian latent variables. Codes have the size of the encoder's states."""

    @property
    def in_attention(self) -> bool:
        return False

    def memory(self, width: int) -> Memory:
        if self.latent == "codes":
            return Codebook(width, self.num_codes, self.decay, self.revive_below)
        kinds: dict[str, type[SentenceMemory | GaussianSequence]]
        kinds = {"gaussian": GaussianSequence, "sentence": SentenceMemory}
        return kinds[self.latent](width, self.latent_size)

    def commitment_at(self, step: Tensor) -> Tensor:
        """Return the weight of the commitment loss at an optimizer step."""
        if not self.commitment_steps:
            return torch.full_like(step, self.commitment, dtype=torch.float32)
        progress = (step.float() / self.commitment_steps).clamp(max=1)
        return self.commitment_start + (self.commitment - self.commitment_start) * progress

    def sample(self, states: Tensor, call: Call) -> Tensor:
        """Return the states as they are: the memory of the decoder is replaced, and attention stays deterministic."""
        return states
