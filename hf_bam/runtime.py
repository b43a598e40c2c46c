"""What a patched model knows while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from .objective import KlTerm


@dataclass
class Frame:
    """One forward pass of a patched model: what went in, and the KL terms that come out.

    Attributes:
        owner: the model whose forward opened the frame.
        encoder_tokens, decoder_tokens: (B, L) which tokens of each side are real, or None when that is not known.
        wants_weights: whether the caller asked for attention weights.
        past: how many tokens of the decoder lie in the cache.
        replaying: gradient checkpointing runs a layer once more; its KL is already counted.
    """

    owner: nn.Module
    encoder_tokens: Tensor | None = None
    decoder_tokens: Tensor | None = None
    wants_weights: bool = False
    past: int = 0
    replaying: bool = False
    terms: list[KlTerm] = field(default_factory=list)
    uses: dict[int, int] = field(default_factory=dict)

    def add(self, term: KlTerm) -> None:
        if not self.replaying:
            self.terms.append(term)

    def next_use(self, layer: int) -> int:
        """How often this layer ran before in the same forward (ALBERT runs one layer many times)."""
        use = self.uses.get(layer, 0)
        self.uses[layer] = use + 1
        return use

    def queries(self, decoder: bool, batch: int, queries: int, keys: int) -> Tensor | None:
        """(B, T) which queries are real tokens; None when that is not known, so that all count."""
        tokens = self.decoder_tokens if decoder else self.encoder_tokens
        if tokens is None:
            return None
        tokens = tokens.reshape(-1, tokens.shape[-1])  # multiple choice: (B, choices, L)
        if tokens.shape == (batch, keys):
            return tokens[:, -queries:]  # keys of a prefix or a cache come first
        return tokens if tokens.shape == (batch, queries) else None


@dataclass
class Draws:
    """Random numbers for sampling in evaluation mode: from the global generator, or from a seed of their own.

    Attributes:
        hold: one draw for all forwards, as a function of the place of a weight, see `hf_bam.counter`.
        groups: with `hold`, into how many equal parts a batch falls; the rows of a part share their noise.
    """

    seed: int | None = None
    hold: bool = False
    groups: int | None = None
    generators: dict[torch.device, torch.Generator] = field(default_factory=dict)

    def generator(self, device: torch.device) -> torch.Generator | None:
        if self.seed is None:
            return None
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]


@dataclass
class Meter:
    """Means of the terms of the loss since they were last asked for.

    The count is a tensor like the sums: a compiled model would be compiled again for every other number.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    count: Tensor | int = 0

    def add(self, **terms: Tensor) -> None:
        self.sums = {name: self.sums.get(name, 0) + value.detach() for name, value in terms.items()}
        self.count = self.count + next(iter(terms.values())).detach().new_ones(())

    def pop(self) -> dict[str, Tensor]:
        means = {name: total / self.count for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        return means


class Runtime:
    """The open frame and the sampling mode of one model; every thread has its own."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __reduce__(self) -> tuple[type[Runtime], tuple[()]]:
        return Runtime, ()  # a copy starts at rest

    @property
    def frame(self) -> Frame | None:
        return getattr(self._local, "frame", None)

    @frame.setter
    def frame(self, frame: Frame | None) -> None:
        self._local.frame = frame

    @property
    def draws(self) -> Draws | None:
        return getattr(self._local, "draws", None)

    @property
    def kl_loss(self) -> Tensor | None:
        """The KL term of the last forward in training mode."""
        return getattr(self._local, "kl_loss", None)

    @kl_loss.setter
    def kl_loss(self, kl_loss: Tensor | None) -> None:
        self._local.kl_loss = kl_loss

    @property
    def meter(self) -> Meter:
        """The terms of the loss, for the logs."""
        if not hasattr(self._local, "meter"):
            self._local.meter = Meter()
        return self._local.meter

    @contextmanager
    def sampling(self, draws: Draws | None) -> Iterator[None]:
        before = self.draws
        self._local.draws = draws
        try:
            yield
        finally:
            self._local.draws = before


class Replay:
    """Runs part of a forward again, for gradient checkpointing, as it ran in `frame`; can be entered repeatedly."""

    def __init__(self, runtime: Runtime, frame: Frame) -> None:
        self.runtime = runtime
        self.frame = replace(frame, replaying=True)
        self.before: Frame | None = None

    def __enter__(self) -> None:
        self.before, self.runtime.frame = self.runtime.frame, self.frame

    def __exit__(self, *error: object) -> None:
        self.runtime.frame = self.before
