"""State of a patched model while it runs: the open forward pass, the sampling mode, means for the logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ..families import Alignment
from ..objective import LossTerm
from .frame import Frame
from .sampling import Sampling


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
    def edge_calls(self) -> dict[int, Any]:
        """Calls of graph layers between their softmax and their messages, by the number of the layer."""
        calls: dict[int, Any] = self._local.__dict__.setdefault("edge_calls", {})
        return calls

    @property
    def meter(self) -> Meter:
        """Means of the terms of the loss, for the logs."""
        if not hasattr(self._local, "meter"):
            self._local.meter = Meter()
        return self._local.meter

    @property
    def records(self) -> list[Alignment] | None:
        """Latent alignments of the forward passes of this thread within `recording`; None outside of it."""
        return getattr(self._local, "records", None)

    @property
    def measured(self) -> list[LossTerm] | None:
        """Loss terms of the forward passes of this thread within `measuring`; None outside of it."""
        return getattr(self._local, "measured", None)

    @property
    def observed(self) -> list[Any] | None:
        """Attention calls of this thread within `observing`, with layer and weights; None outside of it."""
        return getattr(self._local, "observed", None)

    @contextmanager
    def observing(self) -> Iterator[list[Any]]:
        """Collect the attention calls of forward passes: layer, call and weights of each."""
        self._local.observed = observed = list[Any]()
        try:
            yield observed
        finally:
            self._local.observed = None

    @contextmanager
    def measuring(self) -> Iterator[list[LossTerm]]:
        """Collect the loss terms of latent variables of the memory in forward passes in evaluation mode."""
        self._local.measured = measured = list[LossTerm]()
        try:
            yield measured
        finally:
            self._local.measured = None

    @contextmanager
    def recording(self) -> Iterator[list[Alignment]]:
        """Record the latent alignment of every forward pass of the context, which uses mean attention."""
        records: list[Alignment] = []
        self._local.records = records
        try:
            yield records
        finally:
            self._local.records = None

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
