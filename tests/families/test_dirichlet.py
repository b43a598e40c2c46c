"""Dirichlet alignments, against torch.distributions and scipy."""

import pytest
import torch
from scipy import stats
from torch import distributions

from hf_bam import BamConfig
from hf_bam.families import DirichletFamily
from hf_bam.families.dirichlet import SMALLEST, dirichlet_kl, log_gamma_samples

from .alignment_case import PROBABILITIES, Sampled

POSSIBLE = PROBABILITIES > 0


def test_the_kl_is_that_of_torch():
    a, b = torch.rand(2, 40, 5, dtype=torch.float64) * 8 + 0.01
    expected = distributions.kl_divergence(distributions.Dirichlet(a), distributions.Dirichlet(b))
    torch.testing.assert_close(dirichlet_kl(a, b), expected)
    torch.testing.assert_close(dirichlet_kl(a, a), torch.zeros(40, dtype=torch.float64), atol=1e-12, rtol=0)


def test_impossible_positions_have_no_part_in_the_kl():
    a, b = (torch.rand(2, 7, 5, dtype=torch.float64) + 0.1).requires_grad_()
    mask = torch.arange(5) < 3
    kl = dirichlet_kl(*(x.masked_fill(~mask, 0.0) for x in (a, b)))
    torch.testing.assert_close(kl, dirichlet_kl(a[:, :3], b[:, :3]))
    a.retain_grad()
    kl.sum().backward()
    assert torch.isfinite(a.grad).all()
    assert (a.grad[:, 3:] == 0).all()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("concentration", [0.5, 3.0, 100.0])
def test_every_weight_follows_its_beta_distribution(concentration, training):
    family = DirichletFamily(concentration=concentration)
    case = Sampled(5000, family, training=training)
    samples = family.draw(case.log_p().double(), case.call())[0]  # in single precision small weights underflow
    assert (samples[:, ~POSSIBLE] == 0).all()
    torch.testing.assert_close(samples.sum(dim=-1), torch.ones(5000, dtype=torch.float64))
    alpha = (concentration * PROBABILITIES + SMALLEST)[POSSIBLE].double()
    for weights, own in zip(samples[:, POSSIBLE].T, alpha, strict=True):
        marginal = stats.beta(own.item(), (alpha.sum() - own).item())
        assert stats.kstest(weights.numpy(), marginal.cdf).pvalue > 1e-3


def test_weights_are_correlated_as_those_of_torch():
    family = DirichletFamily(concentration=3.0)
    samples = Sampled(20_000, family).samples()[:, POSSIBLE]
    reference = distributions.Dirichlet((3.0 * PROBABILITIES + SMALLEST)[POSSIBLE]).sample((20_000,))
    torch.testing.assert_close(torch.cov(samples.T), torch.cov(reference.T), atol=3e-3, rtol=0.05)
    torch.testing.assert_close(samples.mean(dim=0), reference.mean(dim=0), atol=1e-2, rtol=0)


@pytest.mark.parametrize("shape", [1.0, 1.3, 7.0, 200.0])
def test_gamma_samples(shape):
    generator = torch.Generator().manual_seed(0)
    samples = log_gamma_samples(torch.full((20_000,), shape), lambda _: torch.rand(20_000, generator=generator))
    assert stats.kstest(samples.double().exp().numpy(), stats.gamma(shape).cdf).pvalue > 1e-3


def test_gradients_are_those_of_the_mean():
    """The gradient of E[z_0] in the scores, by many samples; E[z] is known."""
    family = DirichletFamily(concentration=3.0)
    scores = torch.tensor([0.3, -0.2, 0.5, 0.0, 0.1, -0.4], dtype=torch.float64, requires_grad=True)
    exact = family.parameters(scores.masked_fill(~POSSIBLE, -torch.inf).log_softmax(dim=-1))
    (expected,) = torch.autograd.grad((exact / exact.sum())[0], scores)
    case = Sampled(40_000, family, training=True)
    many = scores.detach().expand(1, 40_000, 6).clone().requires_grad_()
    log_p = many.masked_fill(~POSSIBLE, -torch.inf).log_softmax(dim=-1)
    family.draw(log_p, case.call())[..., 0].sum().backward()
    found = many.grad[0]
    error = found.std(dim=0) / 40_000**0.5
    assert ((found.mean(dim=0) - expected).abs() < 4 * error + 1e-12).all()


def test_large_concentrations_approach_soft_attention():
    distances = [
        (Sampled(500, DirichletFamily(concentration=c)).samples() - PROBABILITIES).abs().mean() for c in (1, 10, 1000)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.02


def test_settings():
    config = BamConfig(family="dirichlet")
    assert (config.objective, config.kl_weight, config.layers) == ("variational", 1.0, 1)
    for settings, message in (
        ({"concentration": 0}, "1e-06 or above"),
        ({"test_time": "expectation"}, "no 'test_time' with family='dirichlet'"),
        ({"top_k": 3}, "no 'top_k' with family='dirichlet'"),
    ):
        with pytest.raises(ValueError, match=message):
            BamConfig(family="dirichlet", **settings)
