"""Low precision: finite losses and gradients, unbiased noise."""

import math

import numpy as np
import pytest
import torch

import hf_bam
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.mask import AttentionMask

from ..models import PROMISED
from .test_forward import Attention

MODES = {"bf16 autocast": torch.bfloat16, "fp16 autocast": torch.float16, "pure bf16": None}


@pytest.mark.parametrize("name", PROMISED)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "settings",
    [{"k": 1e6}, {"k": 1e6, "noise": "key"}, {"family": "lognormal", "sigma": 1e-6}],
    ids=["weibull", "key", "lognormal"],
)
def test_losses_and_gradients_are_finite_and_close_to_float32(name, mode, settings):
    model, batch = hf_bam.patch(PROMISED[name].build(), **settings).train(), PROMISED[name].batch()
    reference = model(**batch)
    if MODES[mode] is None:
        model.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=MODES[mode] or torch.bfloat16, enabled=MODES[mode] is not None):
        out = model(**batch)
    out.loss.backward()
    assert out.kl.dtype == torch.float32
    torch.testing.assert_close(out.kl, reference.kl, rtol=0.05, atol=0.01)
    torch.testing.assert_close(out.task_loss.float(), reference.task_loss, rtol=0.05, atol=0.05)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [True, False])
def test_noise_is_unbiased(dtype, autocast):
    """Equal scores and one-hot values: the mean output over 50,000 samples is the mean weight, 1/4."""
    made = torch.float32 if autocast else dtype
    query, key = torch.zeros(50, 20, 50, 8, dtype=made), torch.zeros(50, 20, 4, 8, dtype=made)
    value = torch.eye(4, dtype=made).expand(50, 20, 4, 4)
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        output, _ = Attention(k=1.0).to(made)(query, key, value)
    assert output.dtype == dtype
    means = output.float().mean(dim=(0, 1, 2)).numpy()
    np.testing.assert_allclose(means, 0.25, atol=5 * 0.2 / math.sqrt(50_000))  # a sample deviates by about 0.19


def test_pure_bfloat16_draws_its_noise_in_float32():
    layer = Attention(k=1.0).to(torch.bfloat16).bam
    query, key, value = torch.zeros(3, 2, 3, 50, 8, dtype=torch.bfloat16)
    noise = layer.family.log_noise(
        AttentionCall(layer, 0, query, key, value, AttentionMask((2, 3, 50, 50)), scale=1.0)
    )
    assert noise.dtype == torch.float32
    assert noise.unique().numel() > 0.99 * noise.numel()  # bfloat16 has too few values for that
