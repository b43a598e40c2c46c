from scipy import stats
from scipy.special import gamma

from hf_bam.families import Weibull

from .posterior_case import PosteriorCase


def scipy_weibull(k, mean):
    return stats.weibull_min(k, scale=mean / gamma(1 + 1 / k))


class TestWeibull(PosteriorCase):
    posteriors = tuple(Weibull(k) for k in (0.5, 1.0, 5.0, 2000.0))

    def distribution(self, posterior, mean):
        return scipy_weibull(posterior.k, mean)
