"""Attention calls for the tests of the fused backends, and their results by matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hf_bam import BamConfig
from hf_bam.attention.backends import Attended, attend, available, key_noise
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.forward import attention_scores
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import HIDDEN_BELOW, AttentionMask
from hf_bam.attention.noise import NoiseSeed, dropout_factor, log_noise
from hf_bam.attention.runtime import Runtime

B, H, T, S, D = 2, 3, 37, 45, 8
SCALE, SEED = 0.6, NoiseSeed(5)
PATHS = ("native", "portable") if available() else ("portable",)

FAMILIES: dict[str, dict[str, Any]] = {
    "weibull": {"k": 1.5, "beta": 10.0},
    "paper": {"k": 5.0, "beta": 0.01, "prior_shape": "psi"},
    "fixed": {"k": 2.0, "prior": "fixed"},
    "alpha": {"k": 2.0, "beta": 3.0, "prior": "fixed", "alpha": 0.7},
    "lognormal": {"family": "lognormal", "sigma": 0.3, "sigma_prior": 0.5},
    "no KL": {"k": 1.0, "prior": "none"},
}


def _masks() -> dict[str, dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    padding = torch.ones(B, 1, 1, S, dtype=torch.bool)
    padding[1, ..., 30:] = False
    causal = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    holes = torch.rand(B, H, T, S, generator=generator) > 0.5
    holes[0, :, 3] = False  # a row without any key
    additive = torch.randn(B, 1, T, S, generator=generator).masked_fill(~padding, -torch.inf)
    return {
        "none": {},
        "padding": {"allowed": padding},
        "padding, every row": {"allowed": padding.expand(B, 1, T, S).contiguous()},
        "causal": {"causal": True},
        "causal and padding": {"allowed": padding & causal},
        "holes and an empty row": {"allowed": holes},
        "additive": {"bias": additive, "allowed": additive > HIDDEN_BELOW},
    }


MASKS = _masks()


@dataclass
class Case:
    """Random inputs of one attention call; the same for the same settings."""

    settings: dict[str, Any]
    mask: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.0
    dtype: torch.dtype = torch.float32
    compute: Any = None

    def __post_init__(self) -> None:
        torch.manual_seed(1)
        self.family: Any = BamConfig(**self.settings).settings
        self.layer = BamLayer(self.family, Runtime(), head_dim=D)
        shapes = ((B, T, H, D), (B, S, H, D), (B, S, H, D + 1))
        self.inputs = [torch.randn(shape).to(self.dtype).transpose(1, 2).requires_grad_() for shape in shapes]
        self.query_mask = torch.rand(B, T) > 0.2
        self.attention_mask = AttentionMask((B, H, T, S), **self.mask)
        self.allowed = self.attention_mask.rows(slice(0, T), torch.device("cpu"))
        self.weights = torch.rand(B, T, H, D + 1), torch.rand(B, T)

    @property
    def leaves(self) -> list[Tensor]:
        return [*self.inputs, *self.layer.parameters()]

    def call(self) -> AttentionCall:
        """The call, of a layer that has no forward pass around it."""
        return AttentionCall(self.layer, 0, *self.inputs, self.attention_mask, SCALE, self.dropout)

    def exact(self) -> tuple[Tensor, Tensor]:
        """Output and KL (B, T or 1) by matrices, with the noise that the fused backends compute."""
        query, key, value = (x.float() for x in self.inputs)
        posterior, mask = self.family.posterior, self.allowed
        generator = SEED.row_keys(B, H, T)
        scores = attention_scores(query, key, SCALE, bias=self.attention_mask.bias)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        log_p = scores.log_softmax(dim=-1)
        noise = log_noise(posterior, generator, S)
        if self.family.noise != "entry":
            kept = mask & self.query_mask[:, None, :, None]
            number = kept.any(dim=-1, keepdim=True).sum(dim=2, keepdim=True).clamp(min=1)
            log_p = log_p.masked_fill(~kept, -1e30).logsumexp(dim=2, keepdim=True) - number.log()
            mask = kept.any(dim=2, keepdim=True)
            noise = key_noise(posterior, SEED, key, shared=self.family.noise == "token")
        drawn = (scores + noise).softmax(dim=-1).masked_fill(~self.allowed, 0.0)
        if self.dropout:
            drawn = drawn * dropout_factor(self.dropout, generator, S)
        return (drawn @ value).transpose(1, 2), self.exact_kl(log_p, mask, key)

    def exact_kl(self, log_p: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        if not self.family.has_kl:
            return torch.zeros(B, T)
        log_psi = self.layer.prior(key, mask)
        if self.family.noise == "token":
            mask = mask.expand(log_p.shape)
            heads = mask.any(dim=-1, keepdim=True).sum(dim=1, keepdim=True).clamp(min=1)
            logs = (x.expand(mask.shape).masked_fill(~mask, -1e30) for x in (log_p, log_psi))
            log_p, log_psi = (x.logsumexp(dim=1, keepdim=True) - heads.log() for x in logs)
            mask = mask.any(dim=1, keepdim=True)
        return self.family.kl_term(log_p, log_psi, mask).total

    def fast(self) -> tuple[Tensor, Tensor]:
        """The same by `attend`."""
        if not self.family.has_kl:
            return self.attend().output, torch.zeros(B, T)
        if self.family.noise != "entry":
            done = self.attend(query_mask=self.query_mask)
            assert done.received is not None
            return done.output, self.family.shared_kl_term(done.received, self.query_mask, self.call()).total
        log_psi = self.layer.prior(self.inputs[1], self.attention_mask.keys(torch.ones(B, T, dtype=torch.bool)))
        done = self.attend(log_psi=log_psi.expand(B, H, 1, S))
        assert done.kl is not None
        return done.output, done.kl

    def attend(self, **options: Any) -> Attended:
        options = {"seed": SEED, "dropout": self.dropout, "compute": self.compute, **options}
        options |= {"posterior": self.family.posterior, "prior": self.family.prior_distribution}
        return attend(*self.inputs, scale=SCALE, mask=self.attention_mask, noise=self.family.noise, **options)

    def gradients(self, output: Tensor, kl: Tensor) -> list[Tensor]:
        """Of a weighted sum of both, for queries, keys, values and the parameters of the prior."""
        loss = (output * self.weights[0]).sum() + (kl * self.weights[1][:, : kl.shape[1]]).sum()
        grads = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(self.leaves, grads, strict=True)]


def choose(monkeypatch: Any, path: str) -> None:
    """Let `attend` take one of the two paths, in blocks of 16 rows."""
    monkeypatch.setattr("hf_bam.attention.backends.fused.runs_natively", lambda *call: path == "native")
    monkeypatch.setattr("hf_bam.attention.backends.spec.BLOCK", 16 * H * S)
