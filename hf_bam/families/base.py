"""Interface of a family: where its latent variable enters attention, and what attention gives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from ..fields import check_fields
from ..objective import LossTerm

Stage = Literal["memory", "scores", "weights", "output"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class Mask(Protocol):
    """Keys that the queries of an attention call may attend to; see `hf_bam.attention.mask`."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """B, H, T, S."""

    def rows(self, rows: slice, device: torch.device) -> Tensor: ...
    def keys(self, query_mask: Tensor) -> Tensor: ...
    def count_keys(self, device: torch.device) -> Tensor: ...
    def count_queries(self, query_mask: Tensor) -> Tensor: ...


class Call(Protocol):
    """Attention call as a family sees it; see `hf_bam.attention.call`. The networks are children of `layer`."""

    @property
    def layer(self) -> Any: ...
    @property
    def query(self) -> Tensor:
        """(B, H, T, D)."""

    @property
    def key(self) -> Tensor:
        """(B, H, S, D)."""

    @property
    def value(self) -> Tensor:
        """(B, H, S, D_v)."""

    @property
    def mask(self) -> Mask: ...
    @property
    def first_query(self) -> int | None:
        """Index of the first query within the forward pass; None: the call has all queries."""

    @property
    def alignment(self) -> Any:
        """Record of the latent alignment of the open forward pass; None where there is none."""

    @property
    def is_random(self) -> bool:
        """True if the forward pass samples: in training, and within `hf_bam.sampling`."""

    @property
    def wants_terms(self) -> bool:
        """True if loss terms are asked for: in training, or for a measurement."""

    @property
    def step(self) -> Tensor:
        """Number of optimizer steps so far, 0-dimensional."""

    def collect(self, terms: Iterable[LossTerm]) -> None:
        """Add loss terms to the open forward pass."""

    def log(self, **values: Tensor) -> None:
        """Add values to the logs of the open forward pass, beside its loss terms."""

    def query_mask(self, required: bool = False) -> Tensor | None:
        """Return the queries that are not padding, (B, T); None: all."""

    def uniform(
        self,
        count: int,
        *,
        per_head: bool = True,
        per_query: bool = True,
        first: int | None = None,
        stream: int = 0,
    ) -> Tensor:
        """Return uniform random numbers in (0, 1), (B, H or 1, T or 1, count); 1 where heads or queries share them.

        Args:
            first: index of the first number, where numbers are no property of keys (draws, features). None: one number
                for each key, a function of its position in the text.
            stream: other whole numbers give other random numbers.
        """


@dataclass(frozen=True)
class Family(ABC):
    """Kind of stochastic attention: a frozen dataclass of its settings.

    Attention calls `sample` with the tensor of the family's stage, wherever weights are random:

    | stage | tensor |
    |---|---|
    | memory | keys and values, a pair of (B, H, S, D) and (B, H, S, D_v) |
    | scores | masked scores before the softmax, (B, H, T, S) |
    | weights | rows of the softmax, (B, H, T, S) |
    | output | attention vectors, (B, H, T, D_v) |

    In mean mode `sample` is not called: the model computes plain attention.
    """

    stage: ClassVar[Stage]
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of `BamConfig` that are others for this family."""

    def __post_init__(self) -> None:
        check_fields(self, "BamConfig")

    @property
    def in_attention(self) -> bool:
        """True if attention modules are random, and not only the memory."""
        return True

    def memory(self, width: int) -> nn.Module | None:
        """Return the latent variable of the encoder's states, of size `width`, before the decoder attends to them.

        It is a [`Memory`][hf_bam.families.Memory]; None: the states stay as they are.
        """
        return None

    def modules(self, head_dim: int) -> dict[str, nn.Module]:
        """Return the networks of one attention module by name; they become children of `call.layer`.

        Args:
            head_dim: size of the attention vectors of a head for the output stage, of its keys for other stages.
        """
        return {}

    @abstractmethod
    def sample(self, tensor: Any, call: Call) -> Any:
        """Return a sample in the place of the tensor of the stage."""

    def terms(self, tensor: Any, call: Call) -> Iterable[LossTerm]:
        """Return the loss terms of an attention call in training, from the tensor before it is sampled."""
        return ()
