"""Codebook: every state of an encoder is replaced by its nearest code (van den Oord et al. 2017)."""

from __future__ import annotations

import logging

import torch
from torch import Tensor, distributed

from ..objective import CommitmentTerm
from .base import Call
from .memory import Memory

logger = logging.getLogger(__name__)

COLLAPSED = 0.02
"""Perplexity of a collapsed codebook, as a fraction of the number of codes; at least 1.5."""
CHECKED = 100
"""Updates between two checks of the codebook."""


class Codebook(Memory):
    """K codes, which follow the states by an exponential moving average (k-means in small batches).

    ``z_t = e_k`` for the code nearest to the state ``h_t``. Backward passes take the gradient of ``z`` for that of
    ``h`` (straight-through). Codes that hardly any state is near to are moved to states of the batch; so are all codes
    in the first forward pass in training mode. Codes, counts and sums are buffers in float32.

    Args:
        width: size of a state and of a code.
        num_codes: number of codes, K.
        decay: decay of the moving averages.
        revive_below: fraction of the mean count below which a code is moved.
    """

    codes: Tensor
    counts: Tensor
    sums: Tensor
    usage: Tensor
    updates: Tensor

    def __init__(self, width: int, num_codes: int, decay: float, revive_below: float) -> None:
        super().__init__()
        self.decay, self.revive_below = decay, revive_below
        self.register_buffer("codes", torch.randn(num_codes, width))
        self.register_buffer("counts", torch.zeros(num_codes))
        self.register_buffer("sums", torch.zeros(num_codes, width))
        self.register_buffer("usage", torch.zeros(num_codes))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def forward(self, states: Tensor, mask: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        if call.layer.training and not self.updates:
            self.revive(self.counts <= 0, states[mask])
        index = self.nearest(states)
        nearest = self.codes[index].to(states.dtype)
        if call.layer.training:
            call.collect([CommitmentTerm(states, nearest, mask, call.layer.family.commitment_at(call.step))])
            call.log(perplexity=self.update(states.detach(), mask, index))
        return states + (nearest - states).detach(), mask

    @torch.no_grad()
    def nearest(self, states: Tensor) -> Tensor:
        """Return the number of the code nearest to each state, (...) for (..., D)."""
        with torch.autocast(states.device.type, enabled=False):
            codes = self.codes.float()
            distances = codes.square().sum(dim=-1) - 2 * states.float() @ codes.T  # without the square of the state
            return distances.argmin(dim=-1)

    @torch.compiler.disable
    @torch.no_grad()
    def update(self, states: Tensor, mask: Tensor, index: Tensor) -> Tensor:
        """Move the codes to the states of a batch, those of all processes, and return the perplexity of its codes."""
        own, chosen = states[mask].to(self.sums.dtype), index[mask]
        counts, sums = torch.zeros_like(self.counts), torch.zeros_like(self.sums)
        counts.index_add_(0, chosen, torch.ones_like(chosen, dtype=counts.dtype))
        sums.index_add_(0, chosen, own)
        for total in (counts, sums):
            all_reduce(total)
        for average, new in ((self.counts, counts), (self.sums, sums), (self.usage, counts)):
            average.mul_(self.decay).add_(new, alpha=1 - self.decay)
        used = self.counts > 1e-8
        self.codes[used] = self.sums[used] / self.counts[used, None]
        self.updates += 1
        self.revive(self.counts < self.revive_below * self.counts.mean(), own)  # none for 0
        if int(self.updates) % CHECKED == 0 and (report := self.report()) is not None:
            logger.warning(report)
        return perplexity(counts)

    @torch.no_grad()
    def revive(self, dead: Tensor, states: Tensor) -> None:
        """Move dead codes to random states of the batch, (N, D), each to another one, as far as there are states."""
        numbers = dead.nonzero()[:, 0]
        if not len(numbers):
            return
        rows = torch.randperm(len(states))[: len(numbers)].to(states.device)
        numbers = numbers[: len(rows)]
        self.codes[numbers] = states[rows].to(self.codes.dtype)
        self.counts[numbers] = self.counts.mean().clamp(min=1.0)
        self.sums[numbers] = self.codes[numbers] * self.counts[numbers, None]
        for buffer in (self.codes, self.counts, self.sums):
            broadcast(buffer)

    def report(self) -> str | None:
        """Return a description of a collapsed codebook, in words; None for one that has not collapsed."""
        number, found = len(self.codes), float(perplexity(self.usage))
        if found >= max(1.5, COLLAPSED * number) or not self.usage.any():
            return None
        share = self.usage.sort(descending=True).values.cumsum(dim=0) / self.usage.sum()
        common = int((share < 0.99).sum()) + 1
        return (
            f"The codebook has collapsed: {common} of {number} codes stand for 99% of the states (perplexity "
            f"{found:.1f}), so the decoder learns little from its memory. A lower learning rate, fewer num_codes or "
            "another commitment may help."
        )


def perplexity(counts: Tensor) -> Tensor:
    """Return the exponential of the entropy of relative frequencies: the number of codes in equal use."""
    return torch.special.entr(counts / counts.sum().clamp(min=1e-30)).sum().exp()


def all_reduce(tensor: Tensor) -> None:
    """Add up a tensor over the processes."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(tensor)


def broadcast(tensor: Tensor) -> None:
    """Give all processes the tensor of the first one."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.broadcast(tensor, src=0)
