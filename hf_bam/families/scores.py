"""Bayesian attention modules: multiplicative noise on the unnormalised weights (Fan et al. 2020)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..fields import setting
from ..objective import KlTerm, kl_divergence
from ..priors import PRIORS
from .base import Call, Family


class Posterior(ABC):
    """Distribution of the unnormalised weights, ``S_ij = P_ij * z_ij`` with ``E[z_ij] = 1``.

    ``P`` is the soft attention, so its softmax scores plus ``log z`` are the scores of a sample:
    ``W_i = softmax_j(phi_ij + log z_ij)``. Everything happens in log space.
    """

    def log_noise(
        self,
        shape: Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return independent samples of ``log z``; always finite."""
        return self.quantile(uniform(shape, device=device, dtype=dtype, generator=generator))

    @abstractmethod
    def quantile(self, u: Tensor) -> Tensor:
        """Return the value that ``log z`` exceeds with probability ``1 - u``, for ``u`` within (0, 1)."""


def uniform(shape: Sequence[int], dtype: torch.dtype = torch.float32, **options: Any) -> Tensor:
    """Return uniform random numbers above 0, which torch's generator may return."""
    return torch.rand(tuple(shape), dtype=dtype, **options).clamp_(min=torch.finfo(dtype).eps / 4)


@dataclass(frozen=True)
class ScoreFamily(Family):
    """Noise on the scores, with a prior distribution around prior attention over the keys.

    Subclasses add the parameters of a posterior and of a prior distribution whose KL is registered.
    """

    stage = "scores"

    noise: str = setting("entry", choices=("entry", "key", "token"))
    """`"entry"`: independent noise for every query and key, as in the paper; `"key"`: one value per key and head,
    shared by all queries; `"token"`: one per key, shared by all queries and heads of a layer."""
    prior: str = setting("contextual", choices=(*PRIORS, "none"))
    """`"contextual"`: a small network of the keys; `"fixed"`: uniform over the keys; `"none"`: no KL."""
    d_mid: int = setting(5, least=1, most=2**13)
    """Width of the contextual prior's hidden layer."""

    @property
    @abstractmethod
    def posterior(self) -> Posterior: ...

    @property
    @abstractmethod
    def prior_distribution(self) -> Any: ...

    def modules(self, head_dim: int) -> dict[str, nn.Module]:
        return {"prior": PRIORS[self.prior].build(head_dim, self.d_mid)} if self.has_kl else {}

    @property
    def has_kl(self) -> bool:
        return self.prior != "none"

    def sample(self, scores: Tensor, call: Call) -> Tensor:
        """Return ``phi + log z``, (B, H, T, S)."""
        return scores + self.log_noise(call).to(scores.dtype)

    def log_noise(self, call: Call) -> Tensor:
        """Return ``log z``, (B, H or 1, T or 1, S)."""
        keys = call.mask.shape[3]
        numbers = call.uniform(keys, per_head=self.noise != "token", per_query=self.noise == "entry")
        return self.posterior.quantile(numbers)

    def terms(self, scores: Tensor, call: Call) -> Iterator[KlTerm]:
        if not self.has_kl:
            return
        log_p, mask = scores.log_softmax(dim=-1), call.mask.rows(slice(0, scores.shape[2]), scores.device)
        if self.noise == "entry":
            yield self.kl_term(log_p, call.layer.prior(call.key, mask), mask, call.query_mask())
            return
        query_mask = self.shared_query_mask(call)
        received = torch.einsum("bhts,bt->bhs", log_p.exp().masked_fill(~mask, 0.0), query_mask.to(log_p))
        yield self.shared_kl_term(received, query_mask, call)

    def kl_term(self, log_p: Tensor, log_psi: Tensor, mask: Tensor, query_mask: Tensor | None = None) -> KlTerm:
        """Return the KL of weights with mean ``exp(log_p)``, (B, H, T, S), to the prior."""
        log_p, log_psi = (x.masked_fill(~mask, 0.0) for x in (log_p, log_psi))
        kl = kl_divergence(self.posterior, self.prior_distribution, log_p, log_psi).masked_fill(~mask, 0.0)
        return KlTerm(kl.sum(dim=(1, 3)), mask.expand(kl.shape).sum(dim=(1, 3)), query_mask)

    def shared_query_mask(self, call: Call) -> Tensor:
        """Return the queries over which noise that they share takes its mean attention, (B, T), boolean."""
        if call.first_query is not None:
            raise NotImplementedError(
                f"BamConfig.noise={self.noise!r} is shared by all queries, and its KL needs all of them at once; this "
                "model computes its attention step by step. Use noise='entry' or prior='none', or a model that does "
                "not (RecurrentConfig.input_feeding=False and scheduled_sampling=0)."
            )
        query_mask = call.query_mask(required=True)
        if query_mask is None:
            query_mask = torch.ones(call.mask.shape[0], call.mask.shape[2], device=call.key.device)
        return query_mask.bool()

    def shared_kl_term(self, received: Tensor, query_mask: Tensor, call: Call) -> KlTerm:
        """Return the KL of noise that all queries share.

        ``S_ij = P_ij z_j`` is a one-to-one function of ``T_j = Pbar_j z_j``, and so KL(q(S) || p(S)) =
        sum_j KL(q(T_j) || p(T_j)) for the prior on T carried to S by the same function.

        Args:
            received: (B, H, S) sum of the soft attention over the queries of the mask.
        """
        mask = call.mask.keys(query_mask)  # (B, H or 1, 1, S)
        number = call.mask.count_queries(query_mask).clamp(min=1)
        # The smallest mean that is not taken for 0: its gradient, of the order of its inverse, stays finite.
        log_p = (received.unsqueeze(2) / number).clamp(min=1e-30).log()  # (B, H, 1, S)
        log_psi = call.layer.prior(call.key, mask)
        if self.noise == "token":
            mask = mask.expand(log_p.shape)
            log_p, log_psi = (log_mean_of_heads(x.expand(mask.shape), mask) for x in (log_p, log_psi))
            mask = mask.any(dim=1, keepdim=True)
        return self.kl_term(log_p, log_psi, mask)


def log_mean_of_heads(log: Tensor, mask: Tensor) -> Tensor:
    """Return the log of the mean over the heads (dimension 1) that have any key in the mask, (B, 1, 1, S)."""
    number = mask.any(dim=-1, keepdim=True).sum(dim=1, keepdim=True).clamp(min=1)
    # A large negative number rather than -inf: a key outside the mask of all heads keeps a finite gradient.
    lowest = torch.finfo(log.dtype).min / 2
    total = log.masked_fill(~mask, lowest).logsumexp(dim=1, keepdim=True)
    return total - number.log().to(total)
