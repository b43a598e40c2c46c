"""Properties of every posterior; the oracles are scipy's densities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import stats

from hf_bam.families import Posterior


class PosteriorCase:
    """Subclasses give `posteriors` and a scipy distribution for S."""

    posteriors: tuple[Posterior, ...]

    def distribution(self, posterior: Any, mean: float) -> Any:
        """Return scipy's distribution of S with this mean."""
        raise NotImplementedError

    def test_samples_follow_their_distribution(self):
        for posterior in self.posteriors:
            s = 0.3 * posterior.log_noise((20_000,), dtype=torch.float64).exp().numpy()
            assert stats.kstest(s, self.distribution(posterior, 0.3).cdf).pvalue > 1e-3, posterior

    def test_the_mean_is_the_soft_attention_and_the_variance_that_of_the_distribution(self):
        for posterior in self.posteriors:
            distribution = self.distribution(posterior, 0.3)
            s = 0.3 * posterior.log_noise((400_000,), dtype=torch.float64).exp().numpy()
            assert distribution.mean() == pytest.approx(0.3)
            assert s.mean() == pytest.approx(0.3, abs=5 * distribution.std() / math.sqrt(s.size))
            if distribution.stats(moments="k") < 100:  # else the sample variance says little
                assert s.var() == pytest.approx(distribution.var(), rel=0.1)

    def test_noise_in_float32_is_finite_and_unbiased(self):
        for posterior in self.posteriors:
            log_z = posterior.log_noise((1000, 1000))
            z = log_z.double().exp().numpy()
            assert log_z.dtype == torch.float32
            assert torch.isfinite(log_z).all()
            assert z.mean() == pytest.approx(1.0, abs=6 * self.distribution(posterior, 1.0).std() / 1000)

    def test_a_generator_makes_the_noise_reproducible_and_leaves_the_global_one_alone(self):
        for posterior in self.posteriors:
            before = torch.get_rng_state()
            first, again = (posterior.log_noise((5, 7), generator=torch.Generator().manual_seed(3)) for _ in range(2))
            assert torch.equal(first, again)
            assert torch.equal(before, torch.get_rng_state())
            assert first.unique().numel() == first.numel()
