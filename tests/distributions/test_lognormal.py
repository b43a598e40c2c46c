import itertools
import math

import pytest
import torch
from scipy import stats
from torch.distributions import LogNormal, kl_divergence

from hf_bam.distributions import Lognormal

from .posterior_case import PosteriorCase, numerical_kl


def scipy_lognormal(sigma, mean):
    return stats.lognorm(sigma, scale=mean * math.exp(-(sigma**2) / 2))


class TestLognormal(PosteriorCase):
    posteriors = tuple(
        Lognormal(sigma=sigma, sigma_prior=sigma_prior)
        for sigma, sigma_prior in itertools.product((1e-3, 0.3, 1.5), (0.1, 1.0))
    )

    def law(self, posterior, mean):
        return scipy_lognormal(posterior.sigma, mean)


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("sigma_prior", [0.05, 1.0, 3.0])
def test_kl_equals_numerical_integration_and_torch(sigma, sigma_prior):
    for mean, psi in itertools.product((1e-6, 0.01, 0.9), (1e-5, 0.3)):
        q, p = scipy_lognormal(sigma, mean), scipy_lognormal(sigma_prior, psi)
        expected = numerical_kl(q, p, math.log(mean) - sigma**2 / 2, sigma, lowest=-12, highest=12)
        log_mean, log_psi = torch.tensor([mean, psi], dtype=torch.float64).log()
        ours = Lognormal(sigma=sigma, sigma_prior=sigma_prior).kl(log_mean, log_psi)
        assert ours.item() == pytest.approx(expected, rel=1e-6, abs=1e-10), (mean, psi)
        theirs = kl_divergence(
            LogNormal(log_mean - sigma**2 / 2, sigma), LogNormal(log_psi - sigma_prior**2 / 2, sigma_prior)
        )
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-9, abs=1e-12)


def test_kl_is_zero_where_posterior_and_prior_coincide():
    log_mean = torch.tensor(0.2, dtype=torch.float64).log()
    assert abs(Lognormal(sigma=0.4, sigma_prior=0.4).kl(log_mean, log_mean).item()) < 1e-12
