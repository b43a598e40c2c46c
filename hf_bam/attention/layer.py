"""What hangs on a stochastic attention module, under the name `bam`."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from ..config import BamConfig
from ..families import FAMILIES, Posterior
from ..objective import KlTerm, kl_divergence
from ..priors import DISTRIBUTIONS, PRIORS, Prior, PriorDistribution
from .backends import attend, key_noise
from .mask import AttentionMask, log_mean_attention
from .noise import NoiseSeed, log_noise, new_seed
from .runtime import Positions, Runtime, Sampling


class BamLayer(nn.Module):
    """Posterior, prior and place of one attention module.

    Args:
        prior: gives the prior attention of the keys.
        distribution: the prior distribution of the weights around it.
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
        distribution: PriorDistribution,
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
        self.distribution = distribution
        self.runtime = runtime
        self.noise = noise
        self.decoder = decoder
        self.cross = cross
        self.uses = uses
        self.number = number

    @classmethod
    def build(cls, config: BamConfig, runtime: Runtime, *, head_dim: int, **place: Any) -> BamLayer:
        """The layer for a config; `place` are the arguments that say where it is."""
        prior = PRIORS[config.prior]
        values = {"head_dim": head_dim, **config.to_dict()}
        return cls(
            _from_fields(FAMILIES[config.family], values),
            prior(**{name: values[name] for name in prior.takes}),
            _from_fields(DISTRIBUTIONS[config.family], values),
            runtime,
            noise=config.noise,
            **place,
        )

    def begin_use(self) -> int:
        """Notes that the module runs, and says for which time in this forward."""
        frame = self.runtime.frame
        return frame.next_use(self.number) % len(self.uses) if frame is not None and len(self.uses) > 1 else 0

    @property
    def sampling(self) -> Sampling | None:
        """Where the noise comes from in evaluation mode; None in training and in mean mode."""
        if self.training:
            return None
        frame = self.runtime.frame
        return self.runtime.sampling if frame is None else frame.sampling

    def is_stochastic(self, use: int) -> bool:
        """Whether this use of the module draws its weights: in training, or within `hf_bam.sampling`."""
        return self.uses[use] and (self.training or self.sampling is not None)

    def log_noise(self, query: Tensor, key: Tensor, use: int) -> Tensor:
        """Log noise that broadcasts against the scores, (B, H or 1, T or 1, S).

        Compiled code that trains draws from the global generator, which the compiler knows how to restore.
        """
        batch, heads, queries, keys = *query.shape[:3], key.shape[2]
        if self.training and torch.compiler.is_compiling():
            heads, queries = 1 if self.noise == "token" else heads, queries if self.noise == "entry" else 1
            return self.posterior.log_noise((batch, heads, queries, keys), device=query.device)
        seed = self.noise_seed((batch, queries, keys), use, query.device)
        if self.noise != "entry":
            return key_noise(self.posterior, seed, key, shared=self.noise == "token")
        return log_noise(self.posterior, seed.row_keys(batch, heads, queries, query.device), keys)

    def noise_seed(self, shape: tuple[int, int, int], use: int, device: torch.device) -> NoiseSeed:
        """The seed of the noise of an attention call.

        Training takes it from the global generator: gradient checkpointing restores that before it runs a layer
        again, and a generator of our own it would not.

        Args:
            shape: B, T, S.
        """
        sampling, frame = self.sampling, self.runtime.frame
        if sampling is None:
            return NoiseSeed(new_seed())
        seed = sampling.begin() if frame is None or frame.seed is None else frame.seed
        positions = Positions() if frame is None else frame.positions
        rows = sampling.row_seeds(seed, shape[0], device)
        return NoiseSeed(
            self.number * 2**16 + use + 1, rows, *positions.first(shape, self.decoder, self.cross, device)
        )

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        *,
        use: int,
        scale: float,
        dropout: float,
    ) -> Tensor:
        """Attention with a draw of the weights that is never built as a whole; adds its KL in training.

        Args:
            query, key, value: (B, H, T, D), (B, H, S, D) and (B, H, S, D_v).

        Returns:
            (B, T, H, D_v).
        """
        batch, heads, queries, keys = mask.shape
        seed = self.noise_seed((batch, queries, keys), use, query.device)
        settings: dict[str, Any] = {"mask": mask, "scale": scale, "dropout": dropout}
        settings |= {"posterior": self.posterior, "prior": self.distribution, "seed": seed, "noise": self.noise}
        if not self.training:
            return attend(query, key, value, **settings).output
        real = self.real_queries(batch, queries, keys)
        everyone = torch.ones(batch, queries, dtype=torch.bool, device=query.device)
        if self.noise != "entry":
            counted = everyone if real is None else real.bool()
            done = attend(query, key, value, counted=counted, **settings)
            self.collect(self.kl_term(*log_mean_attention(done.received, counted, mask), key), None)
            return done.output
        log_psi = self.prior(key, mask.keys(everyone))
        if log_psi is not None:
            log_psi = log_psi.expand(batch, heads, 1, keys)
        done = attend(query, key, value, log_psi=log_psi, **settings)
        count = mask.count(query.device)
        total = torch.zeros(count.shape, device=query.device) if done.kl is None else done.kl
        self.collect(KlTerm(total, count), real)
        return done.output

    def add_kl(self, log_p: Tensor, key: Tensor, mask: AttentionMask) -> None:
        """Adds the KL of this attention call to the open forward pass.

        Args:
            log_p: (B, H, T, S) log soft attention.
            key: (B, H, S, D).
        """
        batch, _, queries, keys = mask.shape
        real = self.real_queries(batch, queries, keys)
        visible = mask.block(slice(0, queries), key.device)
        if self.noise == "entry":
            self.collect(self.kl_term(log_p, visible, key), real)
            return
        counted = torch.ones(batch, queries, dtype=torch.bool, device=key.device) if real is None else real.bool()
        received = torch.einsum("bhts,bt->bhs", log_p.exp().masked_fill(~visible, 0.0), counted.to(log_p))
        self.collect(self.kl_term(*log_mean_attention(received, counted, mask), key), None)

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
        elif term.total.requires_grad and not torch.compiler.is_compiling() and not in_backward():
            self.runtime.lost_terms += 1

    def kl_term(self, log_p: Tensor, visible: Tensor, key: Tensor) -> KlTerm:
        log_psi = self.prior(key, visible)
        if self.noise == "token":
            log_p, log_psi, visible = average_over_heads(log_p, log_psi, visible)
        count = visible.expand(log_p.shape).sum(dim=(1, 3))  # (B, T)
        if log_psi is None:
            return KlTerm(log_p.new_zeros(count.shape), count)
        hidden = ~visible
        shown = (x.masked_fill(hidden, 0.0) for x in (log_p, log_psi))
        kl = kl_divergence(self.posterior, self.distribution, *shown)  # (B, H, T, S)
        return KlTerm(kl.masked_fill(hidden, 0.0).sum(dim=(1, 3)), count)


def _from_fields(cls: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass from those of the values that are its fields."""
    return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


def average_over_heads(log_p: Tensor, log_psi: Tensor | None, visible: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Log mean attention and prior over the heads, for one noise value for all of them, and which keys any sees.

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


def in_backward() -> bool:
    """Whether a backward pass is under way, in which gradient checkpointing runs layers again."""
    return torch._C._current_graph_task_id() != -1
