"""Signals that end a run: training saves a checkpoint before it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from accelerate import Accelerator

SIGNALS = (signal.SIGINT, signal.SIGTERM)
TOGETHER = 1.0
"""Seconds within which several signals count as one."""
INTERVAL = 1.0
"""Seconds between two questions of the processes about signals; a step may take longer."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the run.

    Attributes:
        number: number of the signal.
    """

    def __init__(self, number: int, text: str = "") -> None:
        super().__init__(text or "Interrupted.")
        self.number = number


class Stop:
    """Signal that was received, if any.

    Signals that arrive together count as one: a cluster and `torchrun` both send it to the processes of a run.
    """

    def __init__(self) -> None:
        self.number, self.received = 0, 0.0
        self.asked, self.last_step, self.next_step = time.monotonic(), -1, 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; raise `Interrupted` at a later Ctrl-C."""
        now = time.monotonic()
        if not self.number:
            self.number, self.received = number, now
        elif number == signal.SIGINT and now - self.received > TOGETHER:
            raise Interrupted(number)

    def agreed(self, accelerator: Accelerator, step: int) -> int:
        """Return the signal of any process, 0 for none; several processes ask each other about once in a second.

        All of them derive the step at which they ask again from the same times.
        """
        if accelerator.num_processes == 1:
            return self.number
        if step < self.next_step:
            return 0
        now = time.monotonic()
        own = torch.tensor([[self.number, now - self.asked]], device=accelerator.device)
        number, seconds = accelerator.gather(own).amax(0).tolist()
        steps = step - self.last_step if self.last_step >= 0 else 1
        self.asked, self.last_step, self.next_step = now, step, step + max(1, int(steps * INTERVAL / seconds))
        return int(number)


@contextmanager
def interrupting() -> Iterator[None]:
    """Raise `Interrupted` for a signal inside this context."""
    stop = Stop()

    def interrupt(number: int, frame: FrameType | None) -> None:
        first = not stop.number
        stop.receive(number, frame)
        if first:
            raise Interrupted(number)

    with _handled(interrupt):
        yield


@contextmanager
def collected() -> Iterator[Stop]:
    """Collect the first signal inside this context; a second Ctrl-C raises `Interrupted` at once."""
    stop = Stop()
    with _handled(stop.receive):
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
