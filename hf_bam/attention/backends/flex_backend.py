"""Backend of FlexAttention, which is imported when a call goes to it."""

from __future__ import annotations

import torch
from torch import Tensor

from ..call import AttentionCall
from .distributions import knows
from .fused import Blocks
from .spec import Parts, Spec

LEAST = 16
"""Least number of features of a head that the kernels take."""


class Flex(Blocks):
    """Backend of FlexAttention, chosen for GPUs. On a CPU torch runs it without gradients, as a matrix."""

    def supports(self, call: AttentionCall) -> bool:
        on_gpu = call.query.device.type == "cuda" and not torch.compiler.is_compiling()
        return on_gpu and self.takes(call)

    def takes(self, call: AttentionCall) -> bool:
        """Return whether FlexAttention can compute the call; a KL of scores that are not products it cannot."""
        if call.layer is None or call.wants_weights or call.dropout > 0 or not super().takes(call):
            return False
        family, bias = call.layer.family, call.mask.bias
        products = call.softcap is None and bias is None
        has_kl = call.layer.training and family.has_kl
        if (has_kl and not products) or (bias is not None and bias.requires_grad):
            return False
        sizes = (
            call.query.numel() > 0,
            call.key.numel() > 0,
            *(x.shape[3] >= LEAST for x in (call.query, call.value)),
        )
        return all(sizes) and knows(family.posterior, family.prior_distribution) and call.query.dtype != torch.float64

    @staticmethod
    def compute(query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, spec: Spec) -> Parts:
        from .flex import attend_by_flex

        return attend_by_flex(query, key, value, logits, spec)
