"""One attention call: its tensors, its mask and its random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..families import Alignment, Stage
from ..families.scores import uniform as global_uniform
from ..objective import LossTerm
from .layer import BamLayer
from .mask import AttentionMask
from .noise import NoiseSeed, random_bits, uniform

STREAM = 2**48
"""Distance between the seeds of streams of one call; those of calls in evaluation mode are smaller."""


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Arguments of one attention call. Families see it as [`Call`][hf_bam.families.Call].

    Attributes:
        layer: Bayesian layer of the module; None where nothing is sampled.
        use: number of earlier uses of the module in the same forward pass.
        query: (B, H, T, D).
        key: (B, H, S, D).
        value: (B, H, S, D_v).
        scale: factor of the scores.
        dropout: rate of the dropout of the weights.
        softcap: bound of the scores, by a tanh.
        wants_weights: whether the weights are asked for.
        groups: number of neighbouring heads that share their keys and values.
        first_query: index of the first query within the forward pass, for modules that are called step by step; None:
            the call has all queries.
    """

    layer: BamLayer | None
    use: int
    query: Tensor
    key: Tensor
    value: Tensor
    mask: AttentionMask
    scale: float
    dropout: float = 0.0
    softcap: float | None = None
    wants_weights: bool = False
    groups: int = 1
    first_query: int | None = None

    def sampled(self, stage: Stage, tensor: Any) -> Any:
        """Return the tensor of a stage, or a sample in its place if the latent variable is there.

        In training its loss terms go to the open forward pass.
        """
        layer = self.layer
        if layer is None or layer.family.stage != stage:
            return tensor
        self.collect(layer.family.terms(tensor, self) if layer.training else ())
        return layer.family.sample(tensor, self)

    def collect(self, terms: Iterable[LossTerm]) -> None:
        """Add the loss terms of a sampled call to the open forward pass."""
        assert self.layer is not None
        if self.layer.runtime.frame is not None:
            self.layer.runtime.frame.sampled = True
        for term in terms:
            self.layer.collect(term, by_step=self.first_query is not None)

    @property
    def is_random(self) -> bool:
        """True if the forward pass samples: in training, and within `hf_bam.sampling`."""
        return self.layer is not None and (self.layer.training or self.layer.sampling is not None)

    @property
    def wants_terms(self) -> bool:
        """True if loss terms are asked for: in training, or within `Runtime.measuring`."""
        return self.layer is not None and (self.layer.training or self.layer.runtime.measured is not None)

    @property
    def step(self) -> Tensor:
        """Number of optimizer steps so far, 0-dimensional."""
        frame = None if self.layer is None else self.layer.runtime.frame
        return torch.zeros((), device=self.query.device) if frame is None or frame.step is None else frame.step

    def log(self, **values: Tensor) -> None:
        """Add values to the logs of the open forward pass."""
        frame = None if self.layer is None else self.layer.runtime.frame
        if frame is not None and not frame.replaying:
            frame.logged.update(values)

    @property
    def alignment(self) -> Alignment | None:
        """Record of the latent alignment of the open forward pass; None where there is none."""
        frame = None if self.layer is None else self.layer.runtime.frame
        return None if frame is None else frame.alignment

    def query_mask(self, required: bool = False) -> Tensor | None:
        """Return the queries that are not padding, (B, T); None: all, or not known.

        Args:
            required: raise `RuntimeError` where no forward pass of the model is open, which alone knows them.
        """
        assert self.layer is not None
        batch, _, queries, keys = self.mask.shape
        return self.layer.query_mask(batch, queries, keys, required, self.first_query)

    def seed(self) -> NoiseSeed:
        """Return the seed of the noise. In training each call takes a new one from the global generator."""
        assert self.layer is not None
        batch, _, queries, keys = self.mask.shape
        return self.layer.noise_seed((batch, queries, keys), self.use, self.query.device, self.first_query)

    def uniform(
        self,
        count: int,
        *,
        per_head: bool = True,
        per_query: bool = True,
        first: int | None = None,
        stream: int = 0,
    ) -> Tensor:
        """Return uniform random numbers in (0, 1), (B, H or 1, T or 1, count); 1 where heads or queries share them.

        They are a function of the seed, the position and `stream`. Compiled code that trains draws them from the
        global generator, which the compiler knows how to restore.

        Args:
            first: index of the first number, where numbers are no property of keys (draws, features). None: one number
                for each key, a function of its position in the text.
            stream: other whole numbers give other random numbers.
        """
        batch, heads, queries, _ = self.mask.shape
        shape = (batch, heads if per_head else 1, queries if per_query else 1)
        device = self.query.device
        if self.layer is not None and self.layer.training and torch.compiler.is_compiling():
            return global_uniform((*shape, count), device=device)
        seed = self.seed() if per_query else self.seed().for_keys()
        if first is not None:
            seed = replace(seed, first_key=torch.full((batch,), first, device=device))
        seed = replace(seed, call=(seed.call + stream * STREAM) & (2**63 - 1)) if stream else seed
        return uniform(random_bits(seed.row_keys(*shape, device), count))
