"""Context of one forward pass of a patched model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..families import Alignment
from ..objective import LossTerm
from .noise import draw_seed
from .sampling import Sampling


@dataclass(frozen=True)
class Positions:
    """Positions of tokens in their texts, which padding on the left and a cache shift.

    Attributes:
        encoder, decoder: (B,) tokens of padding before each text; None where there are none. For a model of one part
            both are the same.
        past: tokens in the cache of the decoder, or None where that is not known.
        two_parts: whether the model has an encoder, which has no cache, and a decoder.
    """

    encoder: Tensor | None = None
    decoder: Tensor | None = None
    past: int | None = None
    two_parts: bool = False

    def first(
        self, shape: tuple[int, int, int], decoder: bool, cross: bool, device: torch.device, first_query: int = 0
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the positions of the first query and of the first key of an attention call, (B,) each; None for 0.

        Args:
            shape: B, T, S.
            first_query: index of the first query of the call within the forward pass.
        """
        batch, queries, keys = shape
        past = max(0, keys - queries) if self.past is None and not cross else self.past or 0
        if self.two_parts and not decoder:
            past = 0
        # A cache may have dropped the oldest keys, and a static one has room behind the newest.
        dropped = 0 if cross else max(0, past + queries - keys)
        of_queries = self.decoder if decoder else self.encoder
        of_keys = self.encoder if cross else of_queries
        return _first(past + first_query, of_queries, batch, device), _first(dropped, of_keys, batch, device)


def _first(past: int, padding: Tensor | None, batch: int, device: torch.device) -> Tensor | None:
    if padding is None or padding.numel() == 0 or batch % len(padding):
        return torch.full((batch,), past, device=device) if past else None
    return past - padding.repeat(batch // len(padding)).to(device)


@dataclass
class Frame:
    """Context of one forward pass of a patched model: its inputs, and the loss terms of its attention calls.

    Attributes:
        owner: the model whose forward opened the frame.
        encoder_mask, decoder_mask: (B, L) tokens of each side that are not padding; None where that is not known.
        labels: labels of the forward pass, for terms that need the likelihood of the task.
        wants_weights: whether the caller asked for attention weights.
        sampled: whether any attention call was sampled.
        replaying: whether gradient checkpointing runs a layer once more; its terms are collected already.
        sampling, seed: source of the noise of a model in evaluation mode, and the seed of this forward.
        positions: positions of the tokens of this forward in their texts; for sampling.
        places: seeds of the rows and positions of first query and key, which calls of the same shape share.
        alignment: record of the latent alignment; None where there is none.
        step: number of optimizer steps so far, in training.
        logged: values for the logs beside the loss terms.
        terms: loss terms of the attention calls.
        parts: loss terms of the calls that had only some of the queries of a module, by module and kind of term.
        step_seeds: training: the seed that all calls of such a module share, by its number.
    """

    owner: nn.Module
    encoder_mask: Tensor | None = None
    decoder_mask: Tensor | None = None
    labels: Tensor | None = None
    wants_weights: bool = False
    sampled: bool = False
    replaying: bool = False
    sampling: Sampling | None = None
    seed: Tensor | None = None
    # torch.compile traces a function here, and neither the class itself nor an object of it.
    positions: Positions = field(default_factory=lambda: Positions())
    alignment: Alignment | None = None
    step: Tensor | None = None
    logged: dict[str, Tensor] = field(default_factory=dict)
    terms: list[LossTerm] = field(default_factory=list)
    parts: dict[tuple[int, type[LossTerm]], list[LossTerm]] = field(default_factory=dict)
    step_seeds: dict[int, Tensor] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    places: dict[Any, tuple[Tensor | None, ...]] = field(default_factory=dict)

    def add(self, term: LossTerm, layer: int | None = None) -> None:
        """Collect a term; `layer` is the number of a module whose calls have only some of its queries each."""
        if self.replaying:
            return
        if layer is None:
            self.terms.append(term)
        else:
            self.parts.setdefault((layer, type(term)), []).append(term)

    def collected(self) -> list[LossTerm]:
        """Return all terms; those of a module that was called step by step are joined."""
        return [*self.terms, *(kind.join(parts) for (_, kind), parts in self.parts.items())]

    def step_seed(self, layer: int) -> Tensor:
        """Return the seed of a module that is called step by step, the same in all its calls."""
        if layer not in self.step_seeds:
            self.step_seeds[layer] = draw_seed()
        return self.step_seeds[layer]

    def next_use(self, layer: int) -> int:
        """Return how often this layer ran before in the same forward (ALBERT runs one layer many times)."""
        use = self.uses.get(layer, 0)
        self.uses[layer] = use + 1
        return use

    def query_mask(
        self, decoder: bool, batch: int, queries: int, keys: int, first_query: int | None = None
    ) -> Tensor | None:
        """Return the queries that are not padding, (B, T); None where that is not known."""
        tokens = self.decoder_mask if decoder else self.encoder_mask
        if tokens is None:
            return None
        tokens = tokens.reshape(-1, tokens.shape[-1])  # multiple choice: (B, choices, L)
        if first_query is not None:
            return tokens[:, first_query : first_query + queries]
        if tokens.shape == (batch, keys) and queries <= keys:
            return tokens[:, keys - queries :]  # keys of a prefix or a cache come first
        return tokens if tokens.shape == (batch, queries) else None
