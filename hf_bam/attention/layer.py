"""Bayesian layer: what a stochastic attention module carries under the name `bam`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..families import Family
from ..objective import LossTerm
from .frame import Positions
from .noise import NoiseSeed, draw_seed
from .runtime import Runtime
from .sampling import Sampling


class BamLayer(nn.Module):
    """Family, networks and position of one attention module.

    The networks of the family are children of the layer: `layer.prior`, for instance.

    Args:
        family: the kind of randomness, with its settings.
        runtime: state of the model while it runs.
        head_dim: size of the keys of a head, or of its attention vectors for families of the output stage.
        decoder: whether the queries are tokens of the decoder of an encoder-decoder model.
        cross: whether keys and queries come from different sequences.
        uses: for each use of the module within a forward, whether it is stochastic. One entry for most models.
        number: index of the module within its model.
        queries: number of queries of a call that have a latent alignment, the first ones; None: all.
        alternatives: whether alternatives of a latent alignment can follow behind the module.
    """

    def __init__(
        self,
        family: Family,
        runtime: Runtime,
        *,
        head_dim: int,
        decoder: bool = False,
        cross: bool = False,
        uses: tuple[bool, ...] = (True,),
        number: int = 0,
        queries: int | None = None,
        alternatives: bool = False,
    ) -> None:
        super().__init__()
        self.family: Any = family
        self.runtime = runtime
        self.decoder = decoder
        self.cross = cross
        self.uses = uses
        self.number = number
        self.queries = queries
        self.alternatives = alternatives
        for name, module in family.modules(head_dim).items() if any(uses) else ():
            self.add_module(name, module)

    @property
    def forced(self) -> Tensor | None:
        """Outputs that attention returns in the open forward pass whatever it is called with, (N, 1, H, D_v)."""
        frame = self.runtime.frame
        return None if frame is None or frame.alignment is None else frame.alignment.forced

    def begin_use(self) -> int:
        """Count a use of the module in this forward, and return how many there were before."""
        frame = self.runtime.frame
        return frame.next_use(self.number) % len(self.uses) if frame is not None and len(self.uses) > 1 else 0

    @property
    def sampling(self) -> Sampling | None:
        """Source of the noise in evaluation mode; None in training and in mean mode."""
        if self.training:
            return None
        frame = self.runtime.frame
        return self.runtime.sampling if frame is None else frame.sampling

    def is_stochastic(self, use: int) -> bool:
        """Return whether the family computes this use of the module: in training, within `hf_bam.sampling`, or where
        the forward pass has a latent alignment."""
        frame = self.runtime.frame
        aligned = frame is not None and frame.alignment is not None
        return self.uses[use] and (self.training or self.sampling is not None or aligned)

    def noise_seed(
        self, shape: tuple[int, int, int], use: int, device: torch.device, first_query: int | None = None
    ) -> NoiseSeed:
        """Return the seed of the noise of an attention call.

        Training takes it from the global generator: gradient checkpointing restores that before it runs a layer
        again, and a generator of our own it would not.

        Args:
            shape: B, T, S.
            first_query: index of the first query within the forward pass, where the call has only some of them.
        """
        sampling, frame = self.sampling, self.runtime.frame
        if sampling is None:
            if first_query is None or frame is None:
                return NoiseSeed(draw_seed())
            return NoiseSeed(frame.step_seed(self.number), None, torch.full(shape[:1], first_query, device=device))
        call, place = self.number * 2**16 + use + 1, (shape, self.decoder, self.cross, device, first_query or 0)
        if frame is None or frame.seed is None:
            return NoiseSeed(call, sampling.row_seeds(sampling.begin(), shape[0], device), *Positions().first(*place))
        if torch.compiler.is_compiling():  # a compiler finds what calls share by itself, and sizes may be unknown
            return NoiseSeed(call, sampling.row_seeds(frame.seed, shape[0], device), *frame.positions.first(*place))
        if place not in frame.places:
            rows = sampling.row_seeds(frame.seed, shape[0], device)
            frame.places[place] = (rows, *frame.positions.first(*place))
        return NoiseSeed(call, *frame.places[place])

    def query_mask(
        self, batch: int, queries: int, keys: int, required: bool = False, first_query: int | None = None
    ) -> Tensor | None:
        """Return the queries that are not padding, (B, T); None: all, or not known.

        Args:
            required: raise `RuntimeError` where no forward pass of the model is open.
        """
        frame = self.runtime.frame
        if frame is None and required:
            raise RuntimeError(
                "Noise that queries share computes its KL from the queries that are not padding, which only the "
                "forward of the transformers model knows. Call the model rather than its layers, and use the model's "
                "own gradient_checkpointing_enable() rather than a checkpoint wrapper around its layers."
            )
        return None if frame is None else frame.query_mask(self.decoder, batch, queries, keys, first_query)

    def collect(self, term: LossTerm, by_step: bool = False) -> None:
        """Add a term to the open forward pass; `by_step`: of some of the queries.

        It is computed without one too: a checkpointed layer that runs again must do what it did before.
        """
        frame = self.runtime.frame
        if frame is not None:
            frame.add(term, self.number if by_step else None)
        elif term.requires_grad and not torch.compiler.is_compiling() and not in_backward():
            self.runtime.lost_terms += 1


class MemoryLayer(BamLayer):
    """Layer of a decoder: the latent variable of the encoder's states to which its attention modules attend.

    Args:
        memory: the latent variable, a child of the layer.
    """

    def __init__(self, family: Family, runtime: Runtime, memory: nn.Module, *, number: int) -> None:
        super().__init__(family, runtime, head_dim=0, uses=(False,), number=number)
        self.memory = memory


def in_backward() -> bool:
    """Return whether a backward pass is under way, in which gradient checkpointing runs layers again."""
    return torch._C._current_graph_task_id() != -1
