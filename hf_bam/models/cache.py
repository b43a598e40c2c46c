"""State of the recurrent decoder between two calls."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from transformers import Cache

LayerState = tuple[Tensor, Tensor]
"""Hidden and cell state of one LSTM layer, (1, B, D) each."""


class State(NamedTuple):
    """State of the decoder after a step: that of its LSTM layers, and the context vector, (B, 1, D)."""

    layers: tuple[LayerState, ...]
    context: Tensor

    def select(self, rows: Tensor) -> State:
        """Return the state of some rows of the batch."""
        layers = tuple((hidden.index_select(1, rows), cell.index_select(1, rows)) for hidden, cell in self.layers)
        return State(layers, self.context.index_select(0, rows))


class RecurrentCache(Cache):
    """Cache of the recurrent decoder: its state, the number of tokens so far, and the keys and values of the source.

    A state does not show the states before it, so the cache cannot be cropped.
    """

    is_compileable = False
    is_croppable = False

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.reset()

    def reset(self) -> None:
        self.state: State | None = None
        self.memory: tuple[Tensor, Tensor] | None = None
        self.length = 0

    def store(self, state: State, memory: tuple[Tensor, Tensor], tokens: int) -> None:
        """Replace the state by that after further tokens."""
        self.state, self.memory, self.length = state, memory, self.length + tokens

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.state is not None and self.memory is not None:
            indices = indices.to(self.state.context.device)
            key, value = (part.index_select(0, indices) for part in self.memory)
            self.state, self.memory = self.state.select(indices), (key, value)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Give every beam the state of the beam that it continues."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            rows = self.state.context.shape[0]
            indices = self.state.context.new_zeros(rows).long().add_(1).cumsum(0) - 1
            self.batch_select_indices(indices.repeat_interleave(repeats))

    def crop(self, *args: int) -> None:
        raise NotImplementedError("The state of a recurrent decoder cannot be taken back to an earlier token.")
