"""State of a patched model while it runs: the open forward pass, the sampling mode, means for the logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from ..objective import LossTerm
from .noise import derive, new_seed


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
    terms: list[LossTerm] = field(default_factory=list)
    parts: dict[tuple[int, type[LossTerm]], list[LossTerm]] = field(default_factory=dict)
    step_seeds: dict[int, int] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)

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

    def step_seed(self, layer: int) -> int:
        """Return the seed of a module that is called step by step, the same in all its calls."""
        if layer not in self.step_seeds:
            self.step_seeds[layer] = new_seed()
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


class Sampling:
    """Source of the noise of a model in evaluation mode: seeds for the examples of every forward.

    Args:
        seed: the same seed gives the same noise; None: a new one from the global generator for every forward.
        fixed: use the same noise in all forwards, as a function of the position of a weight.
        groups: number of equal parts of a batch; the rows of a part share their noise. None: no two rows do.
        rows: (N,) int64, a seed for each of N equal parts of a batch, in the place of all of the above.
        copies: number of copies of the batch, made where it enters the first stochastic layer.
    """

    def __init__(
        self,
        seed: int | None = None,
        fixed: bool = False,
        groups: int | None = None,
        rows: Tensor | None = None,
        copies: int = 1,
    ) -> None:
        if fixed and seed is None:
            seed = new_seed()
        self.seed = None if seed is None else torch.tensor(seed % 2**63)
        self.fixed, self.groups, self.rows, self.copies = fixed, groups, rows, copies
        self.forwards = torch.zeros((), dtype=torch.int64)
        self._lock = threading.Lock()

    def begin(self) -> Tensor:
        """Return the seed of a forward pass, 0-dimensional."""
        if self.rows is not None:
            return self.forwards
        if self.seed is None:
            return torch.randint(2**63 - 1, ())
        if self.fixed:
            return self.seed
        if torch.compiler.is_compiling():
            self.forwards.add_(1)
            return derive(self.seed, self.forwards)
        with self._lock:
            self.forwards += 1
            return derive(self.seed, self.forwards)

    def row_seeds(self, seed: Tensor, batch: int, device: torch.device) -> Tensor:
        """Return the seeds of the examples, (B,), in the forward pass that `begin` gave this seed."""
        rows = self.rows
        if rows is None:
            rows = derive(seed, torch.arange(self.groups or batch))
        if batch % len(rows):
            raise ValueError(f"groups={len(rows)} does not divide the batch of {batch} rows.")
        return rows.repeat_interleave(batch // len(rows)).to(device)


@dataclass
class Meter:
    """Means of the terms of the loss since they were last asked for.

    The counts are tensors like the sums: a compiled model would be compiled again for every other number.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, **terms: Tensor) -> None:
        for name, value in terms.items():
            value = value.detach()
            value = torch.stack([value, torch.ones_like(value)])  # a sum and a count
            self.sums = {**self.sums, name: self.sums[name] + value if name in self.sums else value}

    def pop(self) -> dict[str, Tensor]:
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        return means


_sampling: ContextVar[Mapping[Runtime, Sampling | None]] = ContextVar("hf_bam_sampling", default=MappingProxyType({}))


class Runtime:
    """The open frame and the sampling mode of one model.

    Every thread has a frame of its own, because a forward pass stays in its thread. The sampling mode belongs to the
    context (`contextvars`): a task of asyncio that waits within `hf_bam.sampling` does not lend it to others. Compiled
    code cannot read context variables; it reads `_local.mode`, the mode of its thread.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self.lost_terms = 0
        """Loss terms of layers that ran outside of a forward of the model, since the last optimizer step."""

    def __reduce__(self) -> tuple[type[Runtime], tuple[()]]:
        return Runtime, ()  # a copy starts at rest

    @property
    def frame(self) -> Frame | None:
        return getattr(self._local, "frame", None)

    @frame.setter
    def frame(self, frame: Frame | None) -> None:
        self._local.frame = frame

    @property
    def sampling(self) -> Sampling | None:
        """The sampling mode of this context; None in mean mode."""
        if torch.compiler.is_compiling():
            mode: Sampling | None = getattr(self._local, "mode", None)
            if mode is _MIXED:
                raise RuntimeError(
                    "Several tasks of one thread are within hf_bam.sampling of one compiled model, which cannot tell "
                    "them apart. Give each task a thread of its own, or do not compile the model."
                )
            return mode
        return _sampling.get().get(self)

    @property
    def kl_loss(self) -> Tensor | None:
        """Weighted loss terms of the last forward in training mode."""
        return getattr(self._local, "kl_loss", None)

    @kl_loss.setter
    def kl_loss(self, kl_loss: Tensor | None) -> None:
        self._local.kl_loss = kl_loss

    @property
    def meter(self) -> Meter:
        """Means of the terms of the loss, for the logs."""
        if not hasattr(self._local, "meter"):
            self._local.meter = Meter()
        return self._local.meter

    @contextmanager
    def sample(self, sampling: Sampling | None) -> Iterator[None]:
        """Set the sampling mode of the context."""
        outer = _sampling.get().get(self)
        _sampling.set({**_sampling.get(), self: sampling})
        opened = self._local.__dict__.setdefault("opened", [])
        opened.append((outer, sampling))
        self._show(opened)
        try:
            yield
        finally:
            _sampling.set({**_sampling.get(), self: outer})
            opened.remove((outer, sampling))
            self._show(opened)

    def _show(self, opened: list[tuple[Sampling | None, Sampling | None]]) -> None:
        """Show compiled code the mode of the thread, if its contexts are nested."""
        nested = all(outer is before for (_, before), (outer, _) in zip([(None, None), *opened], opened, strict=False))
        self._local.mode = (opened[-1][1] if opened else None) if nested else _MIXED


_MIXED = Sampling(seed=0)


class Replay:
    """Reusable context that runs part of a forward again as it ran in `frame`, for gradient checkpointing."""

    def __init__(self, runtime: Runtime, frame: Frame) -> None:
        self.runtime = runtime
        self.frame = replace(frame, replaying=True)
        self.before: Frame | None = None

    def __enter__(self) -> None:
        self.before, self.runtime.frame = self.runtime.frame, self.frame

    def __exit__(self, *error: object) -> None:
        self.runtime.frame = self.before
