"""Which keys each query sees, without a T x S matrix where none is given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Additive masks hide a key by the lowest number of their dtype, by -inf, or by -10000, which bfloat16 rounds up.
HIDDEN_BELOW = -9000.0


@dataclass(frozen=True)
class AttentionMask:
    """What the queries of an attention call may attend to.

    Attributes:
        shape: B, H, T, S.
        visible: boolean, (B or 1, H or 1, T or 1, S); None for all keys.
        causal: query i sees keys 0 to i; instead of `visible`.
        bias: (B or 1, H or 1, T or 1, S), added to the scores; None for nothing.
    """

    shape: tuple[int, int, int, int]
    visible: Tensor | None = None
    causal: bool = False
    bias: Tensor | None = None

    @classmethod
    def read(cls, mask: Tensor | None, shape: tuple[int, int, int, int], causal: bool) -> AttentionMask:
        """The mask that a model passes: boolean or integer, additive, or None.

        Args:
            mask: (B or 1, H or 1, T or 1, at least S): a static cache may have made it too long.
            causal: whether queries attend to no later keys where there is no mask. Query i is then token i: the keys
                of an empty static cache lie behind all queries.
        """
        if mask is None:
            return cls(shape, causal=causal and shape[2] > 1)
        mask = mask[..., : shape[3]]
        if not mask.dtype.is_floating_point:
            return cls(shape, mask.bool())
        return cls(shape, mask > HIDDEN_BELOW, bias=mask)

    def __post_init__(self) -> None:
        if self.causal and self.visible is not None:
            raise ValueError(
                "causal=True and visible are two masks: put the causal one into visible, or leave one out."
            )

    def block(self, rows: slice, device: torch.device) -> Tensor:
        """What some queries see, broadcastable to (B, H, R, S)."""
        if self.visible is not None:
            return self.visible if self.visible.shape[2] == 1 else self.visible[:, :, rows]
        if not self.causal:
            return torch.ones(1, 1, 1, self.shape[3], dtype=torch.bool, device=device)
        key, last = (torch.arange(*ends, device=device) for ends in ((self.shape[3],), (rows.start, rows.stop)))
        return (key <= last[:, None])[None, None]

    def count(self, device: torch.device) -> Tensor:
        """(B, T) how many entries of the attention matrices of all heads are visible to each query."""
        batch, heads, queries, keys = self.shape
        if self.visible is not None:
            seen = self.visible.expand(-1, -1, -1, keys).sum(dim=-1)  # (B or 1, H or 1, T or 1)
            return seen.expand(batch, heads, queries).sum(dim=1)
        last = torch.arange(1, queries + 1, device=device).clamp(max=keys)
        return heads * (last if self.causal else torch.full_like(last, keys)).expand(batch, queries)

    def keys(self, real: Tensor) -> Tensor:
        """Which keys any of the real queries (B, T) sees, (B, H or 1, 1, S)."""
        if self.visible is not None and self.visible.shape[2] == 1:
            return self.visible & real.any(dim=1)[:, None, None, None]
        if self.visible is not None:
            return (self.visible & real[:, None, :, None]).any(dim=2, keepdim=True)
        place = torch.arange(self.shape[3], device=real.device)
        order = torch.arange(1, self.shape[2] + 1, device=real.device)
        last = (order * real).amax(dim=1) if self.causal else real.any(dim=1) * self.shape[3]
        return (place < last[:, None])[:, None, None]

    def seeing(self, real: Tensor) -> Tensor:
        """How many of the real queries (B, T) see any key, (B, H or 1, 1, 1)."""
        if self.visible is None:
            return real.sum(dim=1)[:, None, None, None]
        return (self.visible.any(dim=-1, keepdim=True) & real[:, None, :, None]).sum(dim=2, keepdim=True)


def log_mean_attention(received: Tensor, real: Tensor, mask: AttentionMask) -> tuple[Tensor, Tensor]:
    """Log of the mean attention that each key gets from the real queries, and which keys any of them sees.

    With one noise value for all queries, ``S_ij = P_ij z_j`` is a one-to-one function of ``T_j = Pbar_j z_j``, and so
    KL(q(S) || p(S)) = sum_j KL(q(T_j) || p(T_j)) for the prior on T carried to S by the same function.

    Args:
        received: (B, H, S) sum of the soft attention over the real queries.
        real: (B, T), boolean.

    Returns:
        (B, H, 1, S) and (B, H or 1, 1, S).
    """
    number = mask.seeing(real).clamp(min=1)
    # The smallest mean that is told from none: its gradient, of the order of its inverse, stays finite.
    mean = (received.unsqueeze(2) / number).clamp(min=1e-30)
    return mean.log(), mask.keys(real)
