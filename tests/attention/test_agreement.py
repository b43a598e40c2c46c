"""The fast path against the exact one: same noise in, same output, same KL, same gradients."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from hf_bam.attention.backends import attend
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull
from hf_bam.priors import Gamma

from .cases import FAMILIES, MASKS, PATHS, SCALE, SEED, B, Case, D, H, S, T, choose


def assert_same(actual, expected, tolerance=1e-5):
    """The largest difference, in units of the largest value."""
    assert actual.shape == expected.shape
    assert torch.isfinite(actual).all()
    scale = max(expected.abs().max().item(), 1e-6)
    assert (actual - expected).abs().max().item() <= tolerance * scale


def assert_agrees(case, tolerance=1e-5):
    exact, fast = case.exact(), case.fast()
    for actual, expected in zip(fast, exact, strict=True):
        assert_same(actual.float(), expected.float(), tolerance)
    for actual, expected in zip(case.gradients(*fast), case.gradients(*exact), strict=True):
        assert_same(actual, expected, tolerance)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("noise", ["entry", "key", "token"])
def test_outputs_kl_and_gradients(monkeypatch, path, mask, family, noise):
    choose(monkeypatch, path)
    assert_agrees(Case({"noise": noise, **family}, mask))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("noise", ["entry", "key", "token"])
def test_dropout(monkeypatch, path, noise):
    choose(monkeypatch, path)
    assert_agrees(Case({"noise": noise}, MASKS["padding"], dropout=0.3))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision(monkeypatch, path, dtype):
    """Only inputs and results are rounded (the portable path's products are too)."""
    choose(monkeypatch, path)
    case = Case({}, MASKS["padding"], dtype=dtype)
    assert case.fast()[0].dtype == dtype
    assert case.fast()[1].dtype == torch.float32
    assert_agrees(case, tolerance=6 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("path", PATHS)
def test_autocast(monkeypatch, path):
    choose(monkeypatch, path)
    case = Case({})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, kl = case.fast()
    assert output.dtype == torch.bfloat16
    assert_same(output.float(), case.exact()[0], 0.03)
    assert_same(kl, case.exact()[1], 0.03)


@pytest.mark.parametrize("path", PATHS)
def test_heads_that_share_their_keys(monkeypatch, path):
    choose(monkeypatch, path)
    case = Case({"k": 2.0})
    shared = [torch.randn(B, 1, S, D, requires_grad=True) for _ in range(2)]
    case.inputs[1:] = [x.expand(B, H, S, D) for x in shared]
    case.weights = torch.rand(B, T, H, D), case.weights[1]
    results = [torch.autograd.grad(sum((x**2).sum() for x in run()), shared) for run in (case.fast, case.exact)]
    for actual, expected in zip(*results, strict=True):
        assert_same(actual, expected)


@pytest.mark.parametrize("path", PATHS)
def test_a_gradient_of_the_kl_alone_or_of_the_output_alone(monkeypatch, path):
    choose(monkeypatch, path)
    case = Case({})
    for part in (0, 1):
        fast, exact = (
            torch.autograd.grad(run()[part].square().sum(), case.inputs[:2]) for run in (case.fast, case.exact)
        )
        for actual, expected in zip(fast, exact, strict=True):
            assert_same(actual, expected)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("causal", [False, True])
def test_vanishing_noise_gives_plain_attention(monkeypatch, path, causal):
    choose(monkeypatch, path)
    query, key, value = (torch.randn(B, H, T, D) for _ in range(3))
    mask = AttentionMask((B, H, T, T), causal=causal)
    output = attend(query, key, value, posterior=Weibull(1e7), seed=SEED, scale=SCALE, mask=mask).output
    expected = scaled_dot_product_attention(query, key, value, is_causal=causal, scale=SCALE)
    torch.testing.assert_close(output.transpose(1, 2), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("path", PATHS)
def test_large_scores(monkeypatch, path):
    """Scores of pretrained models reach 50 and more, with keys that get nothing."""
    choose(monkeypatch, path)
    for family in (FAMILIES["weibull"], FAMILIES["lognormal"]):
        case = Case(family, MASKS["padding"])
        case.inputs[0] = (case.inputs[0] * 20).detach().requires_grad_()
        assert case.exact()[0].isfinite().all()
        assert_agrees(case, tolerance=5e-5)


def test_two_masks_are_an_error():
    with pytest.raises(ValueError, match="two masks"):
        AttentionMask((B, H, T, S), torch.ones(1, 1, 1, S, dtype=torch.bool), causal=True)


@pytest.mark.parametrize("path", PATHS)
def test_a_draw_follows_the_seed(monkeypatch, path):
    choose(monkeypatch, path)
    case = Case({})
    first, again, other = (case.attend(seed=seed).output for seed in (SEED, SEED, NoiseSeed(6)))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("noise", ["entry", "key", "token"])
def test_gradients_of_gradients(monkeypatch, path, noise):
    choose(monkeypatch, path)
    case = Case({"noise": noise}, MASKS["padding"], dropout=0.1)
    second = []
    for output, kl in (case.fast(), case.exact()):
        loss = output.square().sum() + kl.sum()
        grads = torch.autograd.grad(loss, case.inputs, create_graph=True)
        penalty = sum(grad.square().sum() for grad in grads)
        second.append(torch.autograd.grad(penalty, case.leaves))
    for actual, expected in zip(*second, strict=True):
        assert_same(actual, expected, tolerance=1e-4)


@pytest.mark.skipif("native" not in PATHS, reason="no C compiler")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_many_blocks_and_jobs(monkeypatch, causal, heads):
    """Longer and wider than a block, a panel and a tile of the kernel, and a head in several jobs."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    torch.manual_seed(0)
    shapes = ((1, heads, 403, 70), (1, heads, 605, 70), (1, heads, 605, 41), (1, heads, 1, 605))
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    options = {"posterior": Weibull(2.0), "prior": Gamma(10.0), "seed": NoiseSeed(3), "scale": 0.1, "dropout": 0.2}
    mask = AttentionMask((1, heads, 403, 605), causal=causal)
    results = []
    for path in PATHS:
        choose(monkeypatch, path)
        *tensors, logits = inputs
        done = attend(*tensors, mask=mask, log_psi=logits.log_softmax(-1), **options)
        loss = done.output.square().sum() + done.kl.square().sum()
        results.append([done.output, done.kl, *torch.autograd.grad(loss, inputs)])
    for actual, expected in zip(*results, strict=True):
        assert_same(actual, expected)


EXTREMES = [
    {"k": 0.01},
    {"k": 1e12},
    {"beta": 1e-15},
    {"beta": 1e8},
    {"prior": "fixed", "alpha": 1e-15},
    {"prior": "fixed", "alpha": 1e8},
    *({"family": "lognormal", "sigma": sigma} for sigma in (1e-15, 30.0)),
    *({"family": "lognormal", "sigma_prior": sigma} for sigma in (1e-4, 1e4)),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("settings", EXTREMES, ids=str)
def test_settings_at_their_bounds(monkeypatch, path, settings):
    """Results and gradients are finite and agree; sums of terms that differ by orders of magnitude lose digits."""
    choose(monkeypatch, path)
    assert_agrees(Case(settings, MASKS["padding"]), tolerance=5e-4)
