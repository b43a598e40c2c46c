"""Signals that end a run: training saves a checkpoint before it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from accelerate import Accelerator

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run.

    Attributes:
        number: number of the signal.
    """

    def __init__(self, number: int, text: str = "") -> None:
        super().__init__(text or "Interrupted.")
        self.number = number


class Stop:
    """Signal that was received while training, if any."""

    number: int = 0

    def agreed(self, accelerator: Accelerator, step: int, interval: int) -> int:
        """Return the signal of any process, 0 for none; several processes agree once in an interval of steps."""
        if accelerator.num_processes == 1:
            return self.number
        if step % interval:
            return 0
        return int(accelerator.gather(torch.tensor([self.number], device=accelerator.device)).max())


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextmanager
def interrupting() -> Iterator[None]:
    """Raise `Interrupted` for every signal inside this context."""
    with _handled(_raise):
        yield


@contextmanager
def collected() -> Iterator[Stop]:
    """Collect the first signal inside this context; a second one raises `Interrupted` at once."""
    stop = Stop()

    def collect(number: int, frame: FrameType | None) -> None:
        if stop.number:
            raise Interrupted(number)
        stop.number = number

    with _handled(collect):
        yield stop


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread only
        yield
        return
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own if own is not None else signal.SIG_DFL)
