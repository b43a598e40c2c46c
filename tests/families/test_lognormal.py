import math

from scipy import stats

from hf_bam.families import Lognormal

from .posterior_case import PosteriorCase


def scipy_lognormal(sigma, mean):
    return stats.lognorm(sigma, scale=mean * math.exp(-(sigma**2) / 2))


class TestLognormal(PosteriorCase):
    posteriors = tuple(Lognormal(sigma) for sigma in (1e-3, 0.3, 1.5))

    def distribution(self, posterior, mean):
        return scipy_lognormal(posterior.sigma, mean)
