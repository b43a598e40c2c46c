"""The attention function by itself, on a module that is nothing but a holder of settings."""

import math

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from hf_bam import BamConfig
from hf_bam.attention.frame import Frame
from hf_bam.attention.interface import bam_attention_forward
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.runtime import Runtime

LOWEST = torch.finfo(torch.float32).min
B, H, T, S, D = 2, 3, 4, 5, 8


class Attention(nn.Module):
    is_causal = False

    def __init__(self, **settings):
        super().__init__()
        self.bam = BamLayer(BamConfig(**settings).settings, Runtime(), head_dim=D)

    def forward(self, query, key, value, mask=None, **kwargs):
        self.bam.runtime.frame = self.frame = Frame(self)
        return bam_attention_forward(self, query, key, value, mask, **kwargs)


@pytest.fixture(params=[False, True], ids=["kernel", "weights"])
def draw(request):
    """Return a function that gives (output, weights) of a sample, by the kernel or by the blocks that give weights.

    The kernel gives no weights, but the same sample once more with unit vectors as values gives them.
    """

    def draw(module, query, key, value, mask=None, **kwargs):
        if request.param:
            return module(query, key, value, mask, output_attentions=True, **kwargs)
        state = torch.get_rng_state()
        units = torch.eye(key.shape[2]).expand(*key.shape[:2], -1, -1)
        weights, _ = module(query, key, units, mask, **kwargs)
        torch.set_rng_state(state)
        output, nothing = module(query, key, value, mask, **kwargs)
        assert nothing is None
        return output, weights.transpose(1, 2).detach()

    return draw


def inputs(queries=T, keys=S, kv_heads=H, **options):
    shapes = ((B, H, queries, D), (B, kv_heads, keys, D), (B, kv_heads, keys, D))
    return [torch.randn(shape, **options) for shape in shapes]


def key_mask(*allowed):
    return torch.tensor(allowed, dtype=torch.bool)[:, None, None].expand(-1, 1, T, -1)


MASKS = {
    "none": None,
    "boolean": key_mask([1, 1, 1, 1, 1], [1, 1, 0, 1, 0]),
    "additive": torch.zeros(B, 1, T, S).masked_fill(~key_mask([1, 1, 1, 1, 1], [1, 1, 0, 1, 0]), LOWEST),
    "minus infinity": torch.zeros(B, 1, T, S).masked_fill(~key_mask([1, 1, 1, 1, 0], [1, 1, 0, 1, 0]), -math.inf),
    "minus 10000": torch.zeros(B, 1, T, S).masked_fill(~key_mask([1, 1, 1, 1, 0], [1, 1, 0, 1, 0]), -1e4),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(
    "settings", [{"k": 1e7}, {"family": "lognormal", "sigma": 1e-7}], ids=["weibull", "lognormal"]
)
@pytest.mark.parametrize("noise", ["entry", "key", "token"])
def test_vanishing_noise_gives_soft_attention(draw, mask, settings, noise):
    query, key, value = inputs()
    output, weights = draw(Attention(noise=noise, **settings), query, key, value, mask)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(output.transpose(1, 2), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("output_attentions", [False, True])
def test_mean_mode_is_soft_attention(mask, output_attentions):
    query, key, value = inputs()
    output, weights = Attention().eval()(query, key, value, mask, output_attentions=output_attentions)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(output.transpose(1, 2), expected, atol=1e-6, rtol=0)
    if output_attentions:
        torch.testing.assert_close(weights @ value, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("mode", ["train", "mean"])
def test_causal_without_a_mask(mode, matrix):
    module = Attention(k=1e7)
    module.train(mode == "train")
    query, key, value = inputs(queries=S)
    output, _ = module(query, key, value, is_causal=True, output_attentions=matrix)
    expected = scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(output.transpose(1, 2), expected, atol=1e-5, rtol=0)
    one_query, _ = module(query[:, :, -1:], key, value, is_causal=True)  # a decoding step sees all keys
    torch.testing.assert_close(one_query[:, 0], output[:, -1], atol=1e-5, rtol=0)


def test_grouped_query_attention(draw):
    query, key, value = inputs(kv_heads=1)
    output, _ = draw(Attention(k=1e7), query, key, value)
    expected = scaled_dot_product_attention(query, key, value, enable_gqa=True)
    torch.testing.assert_close(output.transpose(1, 2), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("noise", ["entry", "key"])
@pytest.mark.parametrize(
    ("settings", "distribution"),
    [
        ({"k": 2.0}, stats.logistic(scale=1 / 2.0)),  # the difference of two Gumbel variables
        ({"family": "lognormal", "sigma": 0.7}, stats.norm(scale=0.7 * math.sqrt(2))),
    ],
    ids=["weibull", "lognormal"],
)
def test_the_log_odds_of_two_keys_follow_their_distribution(draw, noise, settings, distribution):
    """log(W1/W2) - log(P1/P2) is the difference of two independent log noises."""
    query, key, value = torch.randn(40, 50, 1, D), torch.randn(40, 50, 2, D), torch.randn(40, 50, 2, D)
    _, weights = draw(Attention(noise=noise, **settings), query, key, value)
    scores = (query @ key.transpose(-1, -2)) / math.sqrt(D)
    noise_of_odds = (weights[..., 0] / weights[..., 1]).log() - (scores[..., 0] - scores[..., 1])
    assert stats.kstest(noise_of_odds.flatten().numpy(), distribution.cdf).pvalue > 1e-3


def test_noise_differs_between_examples_heads_and_queries(draw):
    query, key, value = (x[:1, :1].expand(B, H, -1, -1) for x in inputs())
    query = query[:, :, :1].expand(-1, -1, T, -1)
    _, weights = draw(Attention(k=2.0), query, key, value)
    assert weights.flatten(0, 2).unique(dim=0).shape == (B * H * T, S)
    _, shared = draw(Attention(k=2.0, noise="key"), query, key, value)
    assert shared[:, :, 0].flatten(0, 1).unique(dim=0).shape == (B * H, S)
    assert torch.equal(shared, shared[:, :, :1].expand_as(shared))
    _, shared = draw(Attention(k=2.0, noise="token"), query, key, value)
    assert shared[:, 0, 0].unique(dim=0).shape == (B, S)
    assert torch.equal(shared, shared[:, :1, :1].expand_as(shared))


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("mask", [MASKS["boolean"], MASKS["additive"]], ids=["boolean", "additive"])
def test_rows_sum_to_one_and_masked_keys_weigh_exactly_nothing(draw, noise, mask):
    _, weights = draw(Attention(k=0.5, noise=noise), *inputs(), mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T))
    assert (weights[1, :, :, [2, 4]] == 0).all()
    assert (weights[0] > 0).all()


@pytest.mark.parametrize(
    "settings", [{}, {"noise": "key"}, {"noise": "token"}, {"family": "lognormal"}, {"prior": "fixed"}]
)
@pytest.mark.parametrize("additive", [False, True])
def test_a_fully_masked_row_gives_zeros_no_kl_and_finite_gradients(draw, settings, additive):
    mask = MASKS["boolean"].clone()
    mask[1] = False
    if additive:
        mask = torch.zeros(mask.shape).masked_fill(~mask, LOWEST)
    tensors = inputs(requires_grad=True)
    module = Attention(**settings)
    output, weights = draw(module, *tensors, mask)
    (term,) = module.frame.terms
    assert (output[1] == 0).all()
    assert (weights[1] == 0).all()
    assert (term.total[1] == 0).all()
    assert (term.count[1] == 0).all()
    (output.sum() + term.reduce("mean")).backward()
    for tensor in (*tensors, *module.parameters()):
        assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"noise": "key"}, {"noise": "token"}, {"family": "lognormal", "prior": "fixed"}]
)
def test_masked_keys_have_no_kl(settings, matrix):
    """The content of a masked key has no effect, and dropping it has none."""
    module = Attention(**settings)
    query, key, value = inputs()
    mask = key_mask([1, 1, 1, 0, 0], [1, 1, 1, 0, 0])
    module(query, key, value, mask, output_attentions=matrix)
    masked = module.frame.terms[0]
    module(query, torch.cat([key[:, :, :3], 100 * key[:, :, 3:]], dim=2), value, mask, output_attentions=matrix)
    changed = module.frame.terms[0]
    module(query, key[:, :, :3], value[:, :, :3], output_attentions=matrix)
    dropped = module.frame.terms[0]
    for other in (changed, dropped):
        torch.testing.assert_close(masked.total, other.total)
        assert torch.equal(masked.count, other.count)


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize(("noise", "heads"), [("key", 1), ("token", H)])
@pytest.mark.parametrize("prior", ["fixed", "contextual"])
def test_the_kl_of_shared_noise_against_its_definition(noise, heads, prior, matrix):
    """With one noise value per key, the KL of all S is that of the weights of any one query in any one head.

    S_1j = P_1j z_j determines every S_ij. Its prior is the Gamma distribution of T_j, stretched by P_1j / Pbar_j.
    """
    from ..families.test_weibull import scipy_weibull
    from ..objective.test_kl import numerical_kl

    k, beta, keys = 3.0, 4.0, 3
    module = Attention(k=k, beta=beta, prior=prior, noise=noise)
    query, key, value = (x[:1, :heads] for x in inputs(keys=keys))
    module(query, key, value, output_attentions=matrix)
    p = ((query @ key.transpose(-1, -2)) / math.sqrt(D)).softmax(-1)[0].double().numpy()  # (H, T, S)
    psi = module.bam.prior(key, torch.ones(1, 1, 1, keys, dtype=torch.bool)).exp().detach()
    psi = psi.expand(1, heads, 1, keys).mean(dim=(0, 1, 2)).double().numpy()
    expected = 0.0
    for j in range(keys):
        distribution = stats.gamma(beta * psi[j], scale=p[0, 1, j] / p[:, :, j].mean() / beta)
        location = math.log(p[0, 1, j] / math.gamma(1 + 1 / k))
        expected += numerical_kl(scipy_weibull(k, p[0, 1, j]), distribution, location, 1 / k, lowest=-60, highest=5)
    (term,) = module.frame.terms
    assert term.total.item() == pytest.approx(expected, rel=1e-5)
    assert term.count.item() == keys


def test_dropout_acts_on_the_drawn_weights(draw):
    _, weights = draw(Attention(), *inputs(), dropout=0.5)
    assert (weights == 0).any()
    assert not torch.allclose(weights.sum(-1), torch.ones(B, H, T))
