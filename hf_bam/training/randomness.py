"""Random number generators of a run: seeds, and states that can be saved and restored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_all(seed: int, process: int = 0) -> None:
    """Seed Python, numpy and torch, differently in each process."""
    own = int(np.random.SeedSequence((seed, process)).generate_state(1)[0])
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002  (the generator that libraries use)
    torch.manual_seed(own)


def random_state() -> dict[str, Any]:
    """Return the states of all generators of this process, as values that JSON can hold."""
    version, numbers, following = random.getstate()
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "python": [version, list(numbers), following],
        "numpy": [name, np.asarray(keys).tolist(), *rest],
        "torch": _text(torch.get_rng_state()),
        "cuda": [_text(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
    }


def restore(state: dict[str, Any]) -> None:
    """Set the generators to the result of `random_state`."""
    version, numbers, following = state["python"]
    random.setstate((version, tuple(numbers), following))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(_tensor(state["torch"]))
    if state["cuda"]:
        torch.cuda.set_rng_state_all([_tensor(text) for text in state["cuda"]])


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the generators at the end of the block, so that random numbers in it do not change training."""
    state = random_state()
    try:
        yield
    finally:
        restore(state)


def _text(state: torch.Tensor) -> str:
    return state.numpy().tobytes().hex()


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
