"""Attention calls for the tests of the fast path, and what the exact path makes of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hf_bam import BamConfig
from hf_bam.attention.backends import Attended, attend, available
from hf_bam.attention.backends.attend import key_noise
from hf_bam.attention.forward import attention_scores
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import HIDDEN_BELOW, AttentionMask, log_mean_attention
from hf_bam.attention.noise import NoiseSeed, dropout_factor, log_noise
from hf_bam.attention.runtime import Runtime

B, H, T, S, D = 2, 3, 37, 45, 8
SCALE, SEED = 0.6, NoiseSeed(5)
PATHS = ("native", "portable") if available() else ("portable",)

LAWS: dict[str, dict[str, Any]] = {
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
    holes[0, :, 3] = False  # a row that sees nothing
    additive = torch.randn(B, 1, T, S, generator=generator).masked_fill(~padding, -torch.inf)
    return {
        "none": {},
        "padding": {"visible": padding},
        "padding, every row": {"visible": padding.expand(B, 1, T, S).contiguous()},
        "causal": {"causal": True},
        "causal and padding": {"visible": padding & causal},
        "holes and an empty row": {"visible": holes},
        "additive": {"bias": additive, "visible": additive > HIDDEN_BELOW},
    }


MASKS = _masks()


@dataclass
class Case:
    """Random inputs of one attention call; the same for the same settings."""

    settings: dict[str, Any]
    mask: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.0
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        torch.manual_seed(1)
        self.layer = BamLayer.build(BamConfig(**self.settings), Runtime(), head_dim=D)
        shapes = ((B, T, H, D), (B, S, H, D), (B, S, H, D + 1))
        self.inputs = [torch.randn(shape).to(self.dtype).transpose(1, 2).requires_grad_() for shape in shapes]
        self.real = torch.rand(B, T) > 0.2
        self.attention_mask = AttentionMask((B, H, T, S), **self.mask)
        self.visible = self.attention_mask.block(slice(0, T), torch.device("cpu"))
        self.weights = torch.rand(B, T, H, D + 1), torch.rand(B, T)

    @property
    def leaves(self) -> list[Tensor]:
        return [*self.inputs, *self.layer.parameters()]

    def exact(self) -> tuple[Tensor, Tensor]:
        """Output and KL (B, T or 1) by matrices, with the noise that the fast path draws."""
        query, key, value = (x.float() for x in self.inputs)
        posterior = self.layer.posterior
        generator = SEED.row_keys(B, H, T)
        scores = attention_scores(query, key, self.mask.get("bias"), SCALE)
        scores = scores.masked_fill(~self.visible, torch.finfo(scores.dtype).min)
        log_p, visible = scores.log_softmax(dim=-1), self.visible
        noise = log_noise(posterior, generator, S)
        if self.layer.noise != "entry":
            counted = visible & self.real[:, None, :, None]
            number = counted.any(dim=-1, keepdim=True).sum(dim=2, keepdim=True).clamp(min=1)
            log_p = log_p.masked_fill(~counted, -1e30).logsumexp(dim=2, keepdim=True) - number.log()
            visible = counted.any(dim=2, keepdim=True)
            noise = key_noise(posterior, SEED, key, shared=self.layer.noise == "token")
        kl = self.layer.kl_term(log_p, visible, key).total
        drawn = (scores + noise).softmax(dim=-1).masked_fill(~self.visible, 0.0)
        if self.dropout:
            drawn = drawn * dropout_factor(self.dropout, generator, S)
        return (drawn @ value).transpose(1, 2), kl

    def fast(self) -> tuple[Tensor, Tensor]:
        """The same by `attend`."""
        key = self.inputs[1]
        if self.layer.noise != "entry":
            done = self.attend(counted=self.real)
            assert done.received is not None
            mean = log_mean_attention(done.received, self.real, self.attention_mask)
            return done.output, self.layer.kl_term(*mean, key).total
        log_psi = self.layer.prior(key, self.attention_mask.keys(torch.ones(B, T, dtype=torch.bool)))
        done = self.attend(log_psi=None if log_psi is None else log_psi.expand(B, H, 1, S))
        return done.output, torch.zeros(B, T) if done.kl is None else done.kl

    def attend(self, **options: Any) -> Attended:
        options = {"seed": SEED, "dropout": self.dropout, **options}
        options |= {"posterior": self.layer.posterior, "prior": self.layer.distribution, "noise": self.layer.noise}
        return attend(*self.inputs, scale=SCALE, mask=self.attention_mask, **options)

    def gradients(self, output: Tensor, kl: Tensor) -> list[Tensor]:
        """Of a weighted sum of both, for queries, keys, values and the parameters of the prior."""
        loss = (output * self.weights[0]).sum() + (kl * self.weights[1][:, : kl.shape[1]]).sum()
        grads = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(self.leaves, grads, strict=True)]


def choose(monkeypatch: Any, path: str) -> None:
    """Lets `attend` take one of the two paths, in blocks of 16 rows."""
    module = importlib.import_module("hf_bam.attention.backends.attend")
    monkeypatch.setattr(module, "runs_natively", lambda query, key, spec: path == "native")
    monkeypatch.setattr("hf_bam.attention.backends.spec.BLOCK", 16 * H * S)
