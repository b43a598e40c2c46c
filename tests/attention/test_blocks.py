"""Capped scores, learned biases and weights by blocks: the sample, KL and gradients of the matrix backend."""

import pytest
import torch

import hf_bam
from hf_bam.attention.backends import BACKENDS
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.frame import Frame
from hf_bam.attention.mask import AttentionMask

from ..models import gemma2, language_model, t5, translation
from .cases import MASKS, SCALE, B, Case, H, S, T
from .test_agreement import assert_same
from .test_memory import Largest

BIASES = {"rows": (1, H, T, S), "keys": (B, 1, 1, S), "none": None}


def results(backend, case, bias, softcap, weights, seed=3):
    """Output, KL, weights, and gradients of their weighted sum, with the noise of a seed."""
    torch.manual_seed(seed)
    case.layer.runtime.frame = frame = Frame(case.layer)
    mask = AttentionMask((B, H, T, S), **{**case.mask, "bias": bias})
    call = AttentionCall(
        case.layer.train(), 0, *case.inputs, mask, SCALE, softcap=softcap, wants_weights=weights is not None
    )
    assert BACKENDS["blocks"].supports(call)
    output, found = BACKENDS[backend].run(call)
    (term,) = frame.terms
    loss = (output * case.weights[0]).sum() + term.total.sum()
    values = [output, term.total]
    if weights is not None:
        loss, values = loss + (found * weights).sum(), [*values, found]
    leaves = [*case.leaves, *([] if bias is None else [bias])]
    return [*values, *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("softcap", [None, 1.5])
def test_blocks_and_matrix_agree(monkeypatch, noise, bias, softcap):
    monkeypatch.setattr("hf_bam.attention.backends.spec.BLOCK", 16 * H * S)
    case = Case({"noise": noise, "k": 1.5, "beta": 10.0}, MASKS["causal and padding"])
    shape = BIASES[bias]
    learned = None if shape is None else torch.randn(shape, requires_grad=True)
    for weights in (None, torch.rand(B, H, T, S)):
        blocks, matrix = (results(name, case, learned, softcap, weights) for name in ("blocks", "matrix"))
        for actual, expected in zip(blocks, matrix, strict=True):
            assert_same(actual, expected)


@pytest.mark.parametrize(("build", "batch"), [(t5, translation), (gemma2, language_model)])
def test_a_model_gives_the_same_by_blocks_and_by_the_matrix(monkeypatch, build, batch):
    """Loss, KL, weights and the gradients of all parameters, the embedding of T5's relative positions among them."""
    torch.manual_seed(0)
    model, inputs = hf_bam.patch(build().double(), k=1.0).train(), batch()
    found = []
    for name in ("blocks", "matrix"):
        monkeypatch.setattr("hf_bam.attention.interface.backend_for", lambda call, name=name: BACKENDS[name])
        torch.manual_seed(1)
        model.zero_grad()
        out = model(**inputs, output_attentions=True)
        out.loss.backward()
        weights = out.encoder_attentions if build is t5 else out.attentions
        found.append([out.loss, out.kl, *weights, *(p.grad for p in model.parameters() if p.grad is not None)])
    for actual, expected in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected)
    if build is t5:
        (relative,) = (p for name, p in model.named_parameters() if name.startswith("encoder") and "relative" in name)
        assert relative.grad.abs().sum() > 0


def test_memory_is_that_of_the_bias(monkeypatch):
    """With 8 rows in the batch no tensor is larger than the bias, which has no rows, or a block."""
    monkeypatch.setattr("hf_bam.attention.backends.spec.BLOCK", 2**14)
    batch, heads, n = 8, 2, 256
    torch.manual_seed(0)
    query, key, value = (torch.randn(batch, heads, n, 4, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, heads, n, n, requires_grad=True)
    mask = AttentionMask((batch, heads, n, n), causal=True, bias=bias)
    layer = Case({"k": 2.0}).layer
    call = AttentionCall(layer, 0, query, key, value, mask, SCALE, softcap=3.0)
    layer.family = hf_bam.BamConfig(k=2.0, prior="none").settings
    with Largest() as largest:
        BACKENDS["blocks"].run(call)[0].sum().backward()
    assert bias.grad.abs().sum() > 0
    assert largest.elements <= max(bias.numel(), 2 * 16 * batch * heads * n) < batch * heads * n * n / 4
