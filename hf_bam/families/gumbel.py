"""Gumbel-softmax alignment: a relaxed sample of a categorical one, with a reparameterised gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..fields import setting
from .base import Call
from .discrete import DiscreteFamily


@dataclass(frozen=True)
class GumbelFamily(DiscreteFamily):
    """Relaxed position per query (Jang et al. 2017, Maddison et al. 2017).

    ``z = softmax((log p + g) / temperature)`` with ``g_i = -log(-log u_i)``. The most probable position of z is a
    sample of the categorical distribution, and z approaches it at low temperatures. Its KL is that of the categorical
    distributions.
    """

    temperature: float = setting(0.5, least=1e-6, most=1e6)
    """Temperature of the relaxed samples: low values approach single positions and have gradients of more variance."""

    def draw(self, log_p: Tensor, call: Call) -> Tensor:
        uniform = call.uniform(log_p.shape[-1], per_head=False)[:, 0, : log_p.shape[1]].to(log_p)  # (B, T, S)
        return ((log_p - (-uniform.log()).log()) / self.temperature).softmax(dim=-1)
