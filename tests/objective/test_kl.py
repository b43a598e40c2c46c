"""KL divergences of registered pairs, against numerical integration of scipy's densities and against torch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import gamma
from torch import distributions

from hf_bam.families import Lognormal, Weibull
from hf_bam.objective import kl_divergence, register_kl
from hf_bam.objective.kl import _PAIRS
from hf_bam.priors import Gamma, LognormalPrior, MedianLognormalPrior

from ..families.test_lognormal import scipy_lognormal
from ..families.test_weibull import scipy_weibull

PAIRS = [
    *((Weibull(k), Gamma(beta)) for k, beta in itertools.product((0.5, 1.0, 5.0, 2000.0), (0.01, 100.0))),
    (Weibull(5.0), Gamma(0.01, prior_shape="psi")),
    (Weibull(5.0), Gamma(2.0, alpha=0.3)),
    *((Lognormal(q), LognormalPrior(p)) for q, p in itertools.product((1e-3, 0.3, 1.5), (0.1, 1.0))),
    *((Lognormal(q), MedianLognormalPrior(p)) for q, p in ((0.3, 1.0), (1e-15, 1e15))),
]


def numerical_kl(q: Any, p: Any, location: float, spread: float, lowest: float, highest: float) -> float:
    """Return KL(q || p) of scipy distributions on (0, inf) by quadrature over t, x = exp(location + spread * t)."""

    def integrand(t: float) -> float:
        x = math.exp(location + spread * t)
        return x * spread * q.pdf(x) * (q.logpdf(x) - p.logpdf(x))

    edges = np.linspace(lowest, highest, 9)
    pieces = [
        integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(pieces)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("k", [0.5, 1.0, 2.0, 10.0, 2000.0])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.5, 1.0, 30.0, 1e3])
def test_weibull_and_gamma_by_numerical_integration(k, alpha):
    for mean, beta in itertools.product((1e-6, 0.01, 0.9), (0.01, 1.0, 100.0)):
        q, p = scipy_weibull(k, mean), stats.gamma(alpha, scale=1 / beta)
        # x = lambda * exp(t/k), so that exp(t) is a standard exponential variable
        location = math.log(mean / gamma(1 + 1 / k))
        expected = numerical_kl(q, p, location, 1 / k, lowest=-60, highest=5)
        ours = kl_divergence(Weibull(k), Gamma(beta, prior_shape="psi"), *doubles(mean, alpha).log())
        assert ours.item() == pytest.approx(expected, rel=1e-6, abs=1e-10), (mean, beta)


@pytest.mark.parametrize(
    ("prior", "alpha"),
    [(Gamma(7.0), 7.0 * 0.2), (Gamma(7.0, prior_shape="psi"), 0.2), (Gamma(7.0, alpha=3.0), 3.0)],
)
def test_the_three_ways_to_the_shape_of_the_prior(prior, alpha):
    p = stats.gamma(alpha, scale=1 / 7.0)
    location = math.log(0.4 / gamma(1.5))
    expected = numerical_kl(scipy_weibull(2.0, 0.4), p, location, 0.5, lowest=-60, highest=5)
    ours = kl_divergence(Weibull(2.0), prior, *doubles(0.4, 0.2).log())
    assert ours.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("sigma_prior", [0.05, 1.0, 3.0])
def test_two_lognormals_by_numerical_integration_and_by_torch(sigma, sigma_prior):
    for mean, psi in itertools.product((1e-6, 0.01, 0.9), (1e-5, 0.3)):
        q, p = scipy_lognormal(sigma, mean), scipy_lognormal(sigma_prior, psi)
        expected = numerical_kl(q, p, math.log(mean) - sigma**2 / 2, sigma, lowest=-12, highest=12)
        log_mean, log_psi = doubles(mean, psi).log()
        ours = kl_divergence(Lognormal(sigma), LognormalPrior(sigma_prior), log_mean, log_psi)
        assert ours.item() == pytest.approx(expected, rel=1e-6, abs=1e-10), (mean, psi)
        theirs = distributions.kl_divergence(
            distributions.LogNormal(log_mean - sigma**2 / 2, sigma),
            distributions.LogNormal(log_psi - sigma_prior**2 / 2, sigma_prior),
        )
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 0.5])
@pytest.mark.parametrize("sigma_prior", [0.05, 3.0])
def test_the_lognormal_prior_with_a_given_median(sigma, sigma_prior):
    log_mean, log_psi = torch.empty(2, 100, dtype=torch.float64).uniform_(-9, 0)
    prior = distributions.LogNormal(log_psi, sigma_prior)
    torch.testing.assert_close(prior.icdf(torch.tensor(0.5)), log_psi.exp())
    posterior = distributions.LogNormal(log_mean - sigma**2 / 2, sigma)
    torch.testing.assert_close(posterior.mean, log_mean.exp())
    ours = kl_divergence(Lognormal(sigma), MedianLognormalPrior(sigma_prior), log_mean, log_psi)
    torch.testing.assert_close(ours, distributions.kl_divergence(posterior, prior))


def test_a_flat_lognormal_prior_is_a_constant():
    log_mean = torch.tensor([-5.0, -0.1], requires_grad=True)
    kl = kl_divergence(Lognormal(1e-6), MedianLognormalPrior(1e15), log_mean, torch.tensor([-1.0, -1.0]))
    torch.testing.assert_close(kl, torch.full((2,), math.log(1e21) - 0.5))
    kl.sum().backward()
    assert log_mean.grad.abs().max() < 1e-25


def test_kl_is_zero_where_posterior_and_prior_coincide():
    """Weibull(1, lambda) and Gamma(1, 1/lambda) are the same exponential distribution."""
    for mean in (1e-3, 0.2, 1.0):
        log_mean = doubles(mean).log()
        assert abs(kl_divergence(Weibull(1.0), Gamma(1 / mean), log_mean, log_mean).item()) < 1e-12
        assert abs(kl_divergence(Lognormal(0.4), LognormalPrior(0.4), log_mean, log_mean).item()) < 1e-12


@pytest.mark.parametrize("pair", PAIRS, ids=str)
class TestEveryPair:
    def test_kl_is_never_negative(self, pair):
        log_mean, log_psi = torch.empty(2, 100_000, dtype=torch.float64).uniform_(-40, 0)
        assert kl_divergence(*pair, log_mean, log_psi).min() >= -1e-9

    def test_gradcheck(self, pair):
        log_mean, log_psi = torch.empty(2, 20, dtype=torch.float64).uniform_(-6, 0).requires_grad_()
        assert torch.autograd.gradcheck(lambda *logs: kl_divergence(*pair, *logs), (log_mean, log_psi))

    def test_kl_and_its_gradient_are_finite_for_vanishing_weights_in_float32(self, pair):
        log_mean = torch.tensor([-200.0, -200.0, -1e-7, -1e-7], requires_grad=True)
        log_psi = torch.tensor([-200.0, -1e-7, -200.0, -1e-7], requires_grad=True)
        kl = kl_divergence(*pair, log_mean, log_psi)
        kl.sum().backward()
        # A constant Gamma shape leaves log_psi without a gradient.
        values = [x for x in (kl, log_mean.grad, log_psi.grad) if x is not None]
        assert torch.isfinite(torch.stack(values)).all()


def test_a_pair_that_is_not_registered_is_an_error_that_names_those_that_are():
    with pytest.raises(
        NotImplementedError, match=r"no KL of Weibull and LognormalPrior; registered are .*Weibull and Gamma"
    ):
        kl_divergence(Weibull(1.0), LognormalPrior(1.0), *doubles(0.1, 0.2).log())


def test_a_pair_of_ones_own(monkeypatch):
    monkeypatch.setattr("hf_bam.objective.kl._PAIRS", dict(_PAIRS))
    register_kl(Lognormal, Gamma)(lambda q, p, log_mean, log_psi: q.sigma * p.beta + log_mean + log_psi)
    assert kl_divergence(Lognormal(2.0), Gamma(3.0), *doubles(1.0, 1.0).log()).item() == 6.0
