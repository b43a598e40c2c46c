"""What holds for every posterior; the oracles are scipy's densities."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from hf_bam.distributions import Posterior


def numerical_kl(q: Any, p: Any, location: float, spread: float, lowest: float, highest: float) -> float:
    """KL(q || p) of two scipy laws on (0, inf) by quadrature, over t with x = exp(location + spread * t)."""

    def integrand(t: float) -> float:
        x = math.exp(location + spread * t)
        return x * spread * q.pdf(x) * (q.logpdf(x) - p.logpdf(x))

    edges = np.linspace(lowest, highest, 9)
    pieces = [
        integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(pieces)


class PosteriorCase:
    """Subclasses give `posteriors`, a scipy law for S, and a grid for the KL."""

    posteriors: tuple[Posterior, ...]

    def law(self, posterior: Any, mean: float) -> Any:
        """scipy's law of S with this mean."""
        raise NotImplementedError

    def test_samples_follow_their_law(self):
        for posterior in self.posteriors:
            s = 0.3 * posterior.log_noise((20_000,), dtype=torch.float64).exp().numpy()
            assert stats.kstest(s, self.law(posterior, 0.3).cdf).pvalue > 1e-3, posterior

    def test_the_mean_is_the_soft_attention_and_the_variance_that_of_the_law(self):
        for posterior in self.posteriors:
            law = self.law(posterior, 0.3)
            s = 0.3 * posterior.log_noise((400_000,), dtype=torch.float64).exp().numpy()
            assert law.mean() == pytest.approx(0.3)
            assert s.mean() == pytest.approx(0.3, abs=5 * law.std() / math.sqrt(s.size))
            if law.stats(moments="k") < 100:  # else the sample variance says little
                assert s.var() == pytest.approx(law.var(), rel=0.1)

    def test_noise_in_float32_is_finite_and_unbiased(self):
        for posterior in self.posteriors:
            log_z = posterior.log_noise((1000, 1000))
            z = log_z.double().exp().numpy()
            assert log_z.dtype == torch.float32
            assert torch.isfinite(log_z).all()
            assert z.mean() == pytest.approx(1.0, abs=6 * self.law(posterior, 1.0).std() / 1000)

    def test_a_generator_makes_the_noise_reproducible_and_leaves_the_global_one_alone(self):
        for posterior in self.posteriors:
            before = torch.get_rng_state()
            first, again = (posterior.log_noise((5, 7), generator=torch.Generator().manual_seed(3)) for _ in range(2))
            assert torch.equal(first, again)
            assert torch.equal(before, torch.get_rng_state())
            assert first.unique().numel() == first.numel()

    def test_kl_is_never_negative(self):
        for posterior in self.posteriors:
            log_mean, log_psi = torch.empty(2, 100_000, dtype=torch.float64).uniform_(-40, 0)
            assert posterior.kl(log_mean, log_psi).min() >= -1e-9, posterior

    def test_kl_gradcheck(self):
        for posterior in self.posteriors:
            log_mean, log_psi = torch.empty(2, 20, dtype=torch.float64).uniform_(-6, 0).requires_grad_()
            assert torch.autograd.gradcheck(posterior.kl, (log_mean, log_psi))

    def test_kl_and_its_gradient_are_finite_for_vanishing_weights_in_float32(self):
        for posterior in self.posteriors:
            log_mean = torch.tensor([-200.0, -200.0, -1e-7, -1e-7], requires_grad=True)
            log_psi = torch.tensor([-200.0, -1e-7, -200.0, -1e-7], requires_grad=True)
            kl = posterior.kl(log_mean, log_psi)
            kl.sum().backward()
            # A constant Gamma shape leaves log_psi without a gradient.
            values = [x for x in (kl, log_mean.grad, log_psi.grad) if x is not None]
            assert torch.isfinite(torch.stack(values)).all(), posterior
