"""Memory grows with n, not with its square: in what is kept for the backward pass, and in what lives at a time."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from hf_bam.attention.backends import attend
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull
from hf_bam.priors import Gamma

from .cases import PATHS, choose

HEADS, WIDTH = 2, 8


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


def run(n, causal, noise):
    """Largest tensor made in a forward and backward pass, and number of elements kept between them."""
    query, key, value = (torch.randn(1, HEADS, n, WIDTH, requires_grad=True) for _ in range(3))
    log_psi = torch.randn(1, HEADS, 1, n).log_softmax(-1).requires_grad_() if noise == "entry" else None
    query_mask = torch.ones(1, n, dtype=torch.bool) if noise == "key" else None
    mask = AttentionMask((1, HEADS, n, n), causal=causal)
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    options = {"posterior": Weibull(5.0), "prior": Gamma(1.0), "seed": NoiseSeed(0), "scale": 1.0, "noise": noise}
    with Largest() as largest:
        with saved_tensors_hooks(keep, lambda x: x):
            done = attend(query, key, value, mask=mask, log_psi=log_psi, query_mask=query_mask, **options)
            loss = sum(x.sum() for x in (done.output, done.kl, done.received) if x is not None)
        loss.backward()
    return largest.elements, sum(kept.values())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("noise", ["entry", "key"])
def test_memory_is_linear(monkeypatch, path, causal, noise):
    choose(monkeypatch, path)
    monkeypatch.setattr("hf_bam.attention.backends.spec.BLOCK", 2**13)
    (small, kept_small), (large, kept_large) = (run(n, causal, noise) for n in (256, 1024))
    assert kept_large <= 4.2 * kept_small
    # Blocks of 16 rows at either length, of which the backward pass of the compiled rows has two in one tensor.
    assert large <= 2 * 16 * HEADS * 1024
    assert large <= 4.2 * small
