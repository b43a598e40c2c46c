import itertools
import math

import pytest
import torch
from scipy import stats
from scipy.special import gamma

from hf_bam.distributions import Weibull

from .posterior_case import PosteriorCase, numerical_kl


def scipy_weibull(k, mean):
    return stats.weibull_min(k, scale=mean / gamma(1 + 1 / k))


class TestWeibull(PosteriorCase):
    posteriors = (
        *(Weibull(k=k, beta=beta) for k, beta in itertools.product((0.5, 1.0, 5.0, 2000.0), (0.01, 100.0))),
        Weibull(k=5.0, beta=0.01, prior_shape="psi"),
        Weibull(k=5.0, beta=2.0, alpha=0.3),
    )

    def law(self, posterior, mean):
        return scipy_weibull(posterior.k, mean)


@pytest.mark.parametrize("k", [0.5, 1.0, 2.0, 10.0, 2000.0])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.5, 1.0, 30.0, 1e3])
def test_kl_equals_numerical_integration(k, alpha):
    for mean, beta in itertools.product((1e-6, 0.01, 0.9), (0.01, 1.0, 100.0)):
        q, p = scipy_weibull(k, mean), stats.gamma(alpha, scale=1 / beta)
        # x = lambda * exp(t/k), so that exp(t) is a standard exponential variable
        location = math.log(mean / gamma(1 + 1 / k))
        expected = numerical_kl(q, p, location, 1 / k, lowest=-60, highest=5)
        ours = Weibull(k=k, beta=beta, prior_shape="psi").kl(
            torch.tensor(mean, dtype=torch.float64).log(), torch.tensor(alpha, dtype=torch.float64).log()
        )
        assert ours.item() == pytest.approx(expected, rel=1e-6, abs=1e-10), (mean, beta)


def test_kl_is_zero_where_posterior_and_prior_coincide():
    """Weibull(1, lambda) and Gamma(1, 1/lambda) are the same exponential law."""
    for mean in (1e-3, 0.2, 1.0):
        kl = Weibull(k=1.0, beta=1 / mean).kl(*torch.tensor([mean, mean], dtype=torch.float64).log())
        assert abs(kl.item()) < 1e-12


@pytest.mark.parametrize(
    ("posterior", "alpha"),
    [
        (Weibull(k=2.0, beta=7.0), 7.0 * 0.2),
        (Weibull(k=2.0, beta=7.0, prior_shape="psi"), 0.2),
        (Weibull(k=2.0, beta=7.0, alpha=3.0), 3.0),
    ],
)
def test_the_three_ways_to_the_prior_shape(posterior, alpha):
    log_mean, log_psi = torch.tensor([0.4, 0.2], dtype=torch.float64).log()
    p = stats.gamma(alpha, scale=1 / 7.0)
    location = math.log(0.4 / gamma(1.5))
    expected = numerical_kl(scipy_weibull(2.0, 0.4), p, location, 0.5, lowest=-60, highest=5)
    assert posterior.kl(log_mean, log_psi).item() == pytest.approx(expected, rel=1e-6)
