"""What hangs on a stochastic attention module, under the name `bam`."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from .config import BamConfig
from .counter import uniform
from .distributions import FAMILIES, Posterior
from .fused import Sight, attend, log_mean_attention, new_seed
from .objective import KlTerm
from .priors import PRIORS, Prior
from .runtime import Draws, Runtime


class BamLayer(nn.Module):
    """Posterior, prior and place of one attention module.

    Args:
        noise: `"entry"`, `"key"` or `"token"`, see [`BamConfig`][hf_bam.BamConfig].
        decoder: whether the queries are tokens of the decoder of an encoder-decoder model.
        cross: whether the keys come from elsewhere than the queries.
        uses: for each use of the module within a forward, whether it is stochastic. One entry for most models.
        number: tells the module from the others of its model.
    """

    def __init__(
        self,
        posterior: Posterior,
        prior: Prior,
        runtime: Runtime,
        *,
        noise: str = "entry",
        decoder: bool = False,
        cross: bool = False,
        uses: tuple[bool, ...] = (True,),
        number: int = 0,
    ) -> None:
        super().__init__()
        self.posterior = posterior
        self.prior = prior
        self.runtime = runtime
        self.noise = noise
        self.decoder = decoder
        self.cross = cross
        self.uses = uses
        self.number = number

    @classmethod
    def build(cls, config: BamConfig, runtime: Runtime, *, head_dim: int, **place: Any) -> BamLayer:
        """The layer for a config; `place` are the arguments that say where it is."""
        family = FAMILIES[config.family]
        posterior = family(**{f.name: getattr(config, f.name) for f in dataclasses.fields(family)})  # type: ignore[arg-type]
        prior = PRIORS[config.prior]
        values = {"head_dim": head_dim, **config.to_dict()}
        return cls(
            posterior,
            prior(**{name: values[name] for name in prior.takes}),
            runtime,
            noise=config.noise,
            **place,
        )

    def begin_use(self, queries: int, keys: int) -> int:
        """Notes that the module runs, and says for which time in this forward."""
        frame = self.runtime.frame
        if frame is None:
            return 0
        if not self.cross:
            frame.past = keys - queries
        return frame.next_use(self.number) % len(self.uses) if len(self.uses) > 1 else 0

    def is_stochastic(self, use: int) -> bool:
        """Whether this use of the module draws its weights: in training, or within `hf_bam.sampling`."""
        return self.uses[use] and (self.training or self.runtime.draws is not None)

    def log_noise(self, scores: Tensor, use: int) -> Tensor:
        """Log noise that broadcasts against the scores, (B, H or 1, T or 1, S).

        Training draws from the global generator: gradient checkpointing restores it before it runs a layer again,
        and a generator of our own it would not.
        """
        batch, heads, queries, keys = scores.shape
        heads, queries = 1 if self.noise == "token" else heads, queries if self.noise == "entry" else 1
        draws = None if self.training else self.runtime.draws
        if draws is not None and draws.hold:
            return self.held_noise((batch, heads, queries, keys), draws, use, scores.device).to(scores.dtype)
        return self.posterior.log_noise(
            (batch, heads, queries, keys),
            device=scores.device,
            dtype=scores.dtype,
            generator=None if draws is None else draws.generator(scores.device),
        )

    def held_noise(self, shape: tuple[int, int, int, int], draws: Draws, use: int, device: torch.device) -> Tensor:
        """Log noise as a function of group, head, query and key, counted from the beginning of the text."""
        rows, heads, queries, keys = (torch.arange(size, device=device) for size in shape)
        groups = draws.groups or shape[0]
        if shape[0] % groups:
            raise ValueError(f"groups={groups} does not divide the batch of {shape[0]} rows.")
        past = 0 if self.runtime.frame is None or self.noise != "entry" else self.runtime.frame.past
        seed = hash((draws.seed, self.number, use))
        row = (rows // (shape[0] // groups))[:, None, None, None]
        u = uniform(seed, row, heads[:, None, None], (queries + past)[:, None], keys)
        return self.posterior.quantile(u)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        visible: Tensor | None,
        bias: Tensor | None,
        causal: bool,
        scale: float,
        dropout: float,
    ) -> Tensor:
        """Attention with a draw of the weights that is never built as a whole; adds its KL in training.

        Args:
            query, key, value: (B, H, T, D), (B, H, S, D) and (B, H, S, D_v).
            visible, bias: broadcastable to (B, H, T, S).

        Returns:
            (B, T, H, D_v).
        """
        batch, heads, queries, keys = *query.shape[:3], key.shape[2]
        sight = Sight((batch, heads, queries, keys), visible, causal)
        draws = None if self.training else self.runtime.draws
        seed = new_seed(None if draws is None else draws.generator(torch.device("cpu")))
        settings: dict[str, Any] = {"sight": sight, "bias": bias, "scale": scale, "dropout": dropout}
        settings |= {"posterior": self.posterior, "seed": seed, "noise": self.noise}
        if not self.training:
            return attend(query, key, value, **settings).output
        real = self.real_queries(batch, queries, keys)
        everyone = torch.ones(batch, queries, dtype=torch.bool, device=query.device)
        if self.noise != "entry":
            counted = everyone if real is None else real.bool()
            done = attend(query, key, value, counted=counted, **settings)
            self.collect(self.kl_term(*log_mean_attention(done.received, counted, sight), key), None)
            return done.output
        log_psi = self.prior(key, sight.keys(everyone))
        if log_psi is not None:
            log_psi = log_psi.expand(batch, heads, 1, keys)
        done = attend(query, key, value, log_psi=log_psi, **settings)
        count = sight.count(query.device)
        total = torch.zeros(count.shape, device=query.device) if done.kl is None else done.kl
        self.collect(KlTerm(total, count), real)
        return done.output

    def add_kl(self, log_p: Tensor, key: Tensor, visible: Tensor) -> None:
        """Adds the KL of this attention call to the open forward pass.

        Args:
            log_p: (B, H, T, S) log soft attention.
            key: (B, H, S, D).
            visible: broadcastable to (B, H, T, S).
        """
        batch, _, queries, keys = log_p.shape
        real = self.real_queries(batch, queries, keys)
        if self.noise != "entry":
            log_p, visible = average_over_queries(log_p, visible, real)
            real = None
        self.collect(self.kl_term(log_p, visible, key), real)

    def real_queries(self, batch: int, queries: int, keys: int) -> Tensor | None:
        """(B, T) which queries are real tokens; None when all count."""
        frame = self.runtime.frame
        if frame is None and self.noise != "entry":
            raise RuntimeError(
                f"noise={self.noise!r} computes its KL from the real queries of a batch, which only the forward of "
                "the transformers model knows. Call the model rather than its layers, and use the model's own "
                "gradient_checkpointing_enable() rather than a checkpoint wrapper around its layers."
            )
        return None if frame is None else frame.queries(self.decoder, batch, queries, keys)

    def collect(self, term: KlTerm, real: Tensor | None) -> None:
        """Adds a term to the open forward pass.

        It is computed without one too: a checkpointed layer that runs again must do what it did before.
        """
        frame = self.runtime.frame
        if frame is not None:
            term.queries = real
            frame.add(term)

    def kl_term(self, log_p: Tensor, visible: Tensor, key: Tensor) -> KlTerm:
        log_psi = self.prior(key, visible)
        if self.noise == "token":
            log_p, log_psi, visible = average_over_heads(log_p, log_psi, visible)
        count = visible.expand(log_p.shape).sum(dim=(1, 3))  # (B, T)
        if log_psi is None:
            return KlTerm(log_p.new_zeros(count.shape), count)
        hidden = ~visible
        kl = self.posterior.kl(log_p.masked_fill(hidden, 0.0), log_psi.masked_fill(hidden, 0.0))  # (B, H, T, S)
        return KlTerm(kl.masked_fill(hidden, 0.0).sum(dim=(1, 3)), count)


def average_over_queries(log_p: Tensor, visible: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log mean attention that each key gets from the real queries, and which keys any of them sees.

    With one noise value for all queries, ``S_ij = P_ij z_j`` is a one-to-one function of ``T_j = Pbar_j z_j``, and so
    KL(q(S) || p(S)) = sum_j KL(q(T_j) || p(T_j)) for the prior on T carried to S by the same function.

    Returns:
        (B, H, 1, S) and (B, H or 1, 1, S).
    """
    if real is None:
        real = torch.ones(log_p.shape[0], log_p.shape[2], dtype=torch.bool, device=log_p.device)
    counted = visible & real.bool()[:, None, :, None]  # (B, H or 1, T, S)
    return log_mean(log_p, counted, dim=2), counted.any(dim=2, keepdim=True)


def average_over_heads(log_p: Tensor, log_psi: Tensor | None, visible: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """The same for one noise value for all heads: mean attention, mean prior, and which keys any head sees.

    Args:
        log_p: (B, H, 1, S).
        log_psi, visible: (B, H or 1, 1, S).
    """
    seen = visible.expand(log_p.shape)
    log_p = log_mean(log_p, seen, dim=1)
    log_psi = None if log_psi is None else log_mean(log_psi.expand(seen.shape), seen, dim=1)
    return log_p, log_psi, seen.any(dim=1, keepdim=True)


def log_mean(log: Tensor, counted: Tensor, dim: int) -> Tensor:
    """Log of the mean over a dimension of what is counted, among those that count any key at all."""
    number = counted.any(dim=-1, keepdim=True).sum(dim=dim, keepdim=True).clamp(min=1)
    # A large negative number rather than -inf: a key that nobody sees keeps a finite gradient.
    lowest = torch.finfo(log.dtype).min / 2
    total = log.masked_fill(~counted, lowest).logsumexp(dim=dim, keepdim=True)
    return total - number.log().to(total)
