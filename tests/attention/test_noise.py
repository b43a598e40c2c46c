"""Noise generator: its distribution, its independence, its seeds."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.checkpoint import checkpoint

from hf_bam.attention.backends import attend, available
from hf_bam.attention.backends.launch import _run
from hf_bam.attention.backends.spec import Spec
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import (
    NoiseSeed,
    dropout_factor,
    log_noise,
    more_bits,
    new_seed,
    random_bits,
    uniform,
)
from hf_bam.families import Lognormal, Weibull

from .cases import PATHS, Case, choose

HEADS, ROWS, KEYS = 16, 128, 512  # a million samples
FAMILIES = {
    "weibull": (
        Weibull(1.5),
        lambda z: stats.weibull_min(1.5, scale=1 / stats.weibull_min(1.5).mean()).cdf(np.exp(z)),
    ),
    "lognormal": (Lognormal(0.3), stats.norm(-0.045, 0.3).cdf),
}
# A right generator fails each of these about once in ten thousand seeds; these seeds are fixed.
UNLIKELY = 1e-4


def native_noise(posterior, seed):
    """Return the noise that the kernel adds to scores of zero, from the weights and their normaliser."""
    lse, noisy_lse = torch.zeros(2, 1, HEADS, ROWS)
    query, key = torch.zeros(1, HEADS, ROWS, 1), torch.zeros(1, HEADS, KEYS, 1)
    weights, units = torch.zeros(1, HEADS, ROWS, KEYS), torch.eye(KEYS).expand(1, HEADS, -1, -1)
    views = {"query": query, "key": key, "value": units, "output": weights}
    spec = Spec(posterior, 1.0, NoiseSeed(seed), AttentionMask((1, HEADS, ROWS, KEYS)))
    _run(spec, views, {"lse": lse, "noisy_lse": noisy_lse}, sums=False)
    return (weights.log() + noisy_lse[..., None])[0]


def draw(path, posterior, seed):
    if path == "native":
        return native_noise(posterior, seed)
    return log_noise(posterior, row_keys(seed), KEYS)


def row_keys(seed, heads=HEADS, rows=ROWS):
    return NoiseSeed(seed).row_keys(1, heads, rows)[0]


def words(seed, heads=HEADS, rows=ROWS, keys=KEYS):
    """Random bits as unsigned numbers, (heads, rows, keys)."""
    return random_bits(row_keys(seed, heads, rows), keys).numpy().view(np.uint32)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("posterior", "cdf"), FAMILIES.values(), ids=FAMILIES)
def test_a_million_samples_fit_their_distribution(path, posterior, cdf):
    noise = draw(path, posterior, seed=11).flatten().double().numpy()
    assert stats.kstest(noise, cdf).pvalue > UNLIKELY
    np.testing.assert_allclose(np.exp(noise).mean(), 1, atol=5 * np.exp(noise).std() / 1e3)
    # Tails: of a million, ten are expected beyond the quantile of 1e-5 on either side, and 100 beyond 1e-4.
    u = cdf(noise)
    for tail in (u, 1 - u):
        for share in (1e-5, 1e-4):
            assert stats.binomtest(int((tail < share).sum()), noise.size, share).pvalue > UNLIKELY


@pytest.mark.skipif(not available(), reason="no C compiler")
@pytest.mark.parametrize("posterior", [Weibull(1.0), Weibull(0.3), Lognormal(1.0)], ids=str)
def test_compiled_and_torch_noise_are_the_same(posterior):
    expected = draw("portable", posterior, seed=3)
    assert expected.max() - expected.min() > 9  # far into the tails
    torch.testing.assert_close(draw("native", posterior, seed=3), expected, atol=2e-5, rtol=1e-5)


def test_samples_never_reach_the_ends():
    """The lowest and the highest bits give finite noise of either family."""
    u = uniform(torch.tensor([0, 1, 2**31 - 1, -(2**31), -1], dtype=torch.int32))
    assert 0 < u.min() < 1e-9
    assert u.max() < 1
    for posterior in (Weibull(1.0), Lognormal(1.0)):
        assert posterior.quantile(u).isfinite().all()


def test_every_bit_is_fair():
    bits = (words(seed=1).ravel()[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    z = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))
    assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("part", [0, 8, 16, 24])
def test_bytes_are_uniform(part):
    counts = np.bincount((words(seed=2) >> part & 255).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > UNLIKELY


def drawn_seeds(number):
    torch.manual_seed(0)
    return [new_seed() for _ in range(number)]


def shifted(axis, by=1):
    x = words(seed=4).swapaxes(0, axis)
    return x[by:], x[:-by]


def noise_and_dropout():
    bits = random_bits(row_keys(4), KEYS)
    return [x.numpy().view(np.uint32) for x in (bits, more_bits(bits))]


# Numbers at neighbouring places of a call, at the same place of different calls, and for noise and dropout.
NEIGHBOURS = {
    "heads": lambda: shifted(0),
    "rows": lambda: shifted(1),
    "keys": lambda: shifted(2),
    "keys at a distance": lambda: shifted(2, by=64),
    "seeds": lambda: (words(seed=4), words(seed=5)),
    "layers and steps": lambda: [words(seed) for seed in drawn_seeds(2)],
    "dropout": noise_and_dropout,
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_are_independent(name):
    """Chi-square of the joint counts of two bytes, and the correlation of the uniform numbers."""
    first, second = (np.ascontiguousarray(x).ravel() for x in NEIGHBOURS[name]())
    for part in (24, 8):
        joint = (first >> part & 255).astype(np.int64) * 256 + (second >> part & 255)
        assert stats.chisquare(np.bincount(joint, minlength=2**16)).pvalue > UNLIKELY
    correlation = np.corrcoef(first, second)[0, 1]
    assert abs(correlation) * np.sqrt(first.size) < 4


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["heads", "rows", "keys"])
def test_sums_over_heads_rows_and_keys_spread_as_those_of_independent_numbers(axis):
    u = words(seed=6) / 2**32
    z = (u.mean(axis=axis) - 0.5).ravel() * np.sqrt(12 * u.shape[axis])
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)


def test_numbers_repeat_as_often_as_random_ones():
    x = words(seed=7)
    repeated = x.size - np.unique(x).size
    expected = x.size - 2**32 * -np.expm1(-x.size / 2**32)
    assert abs(repeated - expected) < 4 * np.sqrt(expected)


def test_dropout_keeps_its_share_whatever_the_noise_is():
    keys = row_keys(8)
    factor = dropout_factor(0.1, keys, KEYS)
    assert factor.unique().tolist() == pytest.approx([0, 1 / 0.9])
    u = uniform(random_bits(keys, KEYS))
    for part in (u < 0.01, u > 0.99, u > 0):
        dropped = int((factor[part] == 0).sum())
        assert stats.binomtest(dropped, int(part.sum()), 0.1).pvalue > UNLIKELY


def test_seeds_follow_the_global_generator():
    assert drawn_seeds(3) == drawn_seeds(3)
    assert len(set(drawn_seeds(100))) == 100


@pytest.mark.parametrize("path", PATHS)
def test_gradient_checkpointing_draws_the_same_noise_again(monkeypatch, path):
    choose(monkeypatch, path)
    case = Case({"k": 1.0})

    def layer(query, key, value):
        options = {"posterior": case.family.posterior, "scale": 1.0, "mask": case.attention_mask}
        return attend(query, key, value, seed=NoiseSeed(new_seed()), **options).output

    torch.manual_seed(3)
    expected = torch.autograd.grad(layer(*case.inputs).square().sum(), case.inputs)
    torch.manual_seed(3)
    output = checkpoint(layer, *case.inputs, use_reentrant=False)
    torch.rand(5)  # the generator moves on before the backward pass
    for actual, wanted in zip(torch.autograd.grad(output.square().sum(), case.inputs), expected, strict=True):
        torch.testing.assert_close(actual, wanted)
