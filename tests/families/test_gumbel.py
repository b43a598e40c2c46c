"""Gumbel-softmax alignments, against torch.distributions and the categorical distribution."""

import pytest
import torch
from scipy import stats
from torch.distributions import RelaxedOneHotCategorical

from hf_bam import BamConfig
from hf_bam.families import GumbelFamily

from .alignment_case import PROBABILITIES, Sampled

POSSIBLE = PROBABILITIES > 0


def test_the_largest_weight_is_a_sample_of_the_categorical_distribution():
    samples = Sampled(20_000, GumbelFamily(temperature=0.7)).samples()
    counts = torch.bincount(samples.argmax(dim=-1), minlength=6)
    expected = PROBABILITIES[POSSIBLE] * 20_000
    assert stats.chisquare(counts[POSSIBLE].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_samples_follow_the_relaxed_distribution_of_torch(temperature, training):
    samples = Sampled(10_000, GumbelFamily(temperature=temperature), training=training).samples()
    assert (samples[:, ~POSSIBLE] == 0).all()
    torch.testing.assert_close(samples.sum(dim=-1), torch.ones(10_000))
    reference = RelaxedOneHotCategorical(torch.tensor(temperature), probs=PROBABILITIES[POSSIBLE]).sample((10_000,))
    for ours, theirs in zip(samples[:, POSSIBLE].T, reference.T, strict=True):
        assert stats.ks_2samp(ours.numpy(), theirs.numpy()).pvalue > 1e-3


def test_low_temperatures_approach_single_positions():
    largest = [
        Sampled(2000, GumbelFamily(temperature=t)).samples().max(dim=-1).values.mean() for t in (2, 0.5, 0.1, 0.01)
    ]
    assert largest == sorted(largest)
    assert largest[0] < 0.7
    assert largest[-1] > 0.99


def test_samples_have_a_gradient_and_impossible_positions_none():
    case = Sampled(50, GumbelFamily(temperature=0.5), training=True)
    scores = torch.randn(1, 50, 6, requires_grad=True)
    log_p = scores.masked_fill(~POSSIBLE, -torch.inf).log_softmax(dim=-1)
    case.family.draw(log_p, case.call())[..., 0].sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[..., POSSIBLE] != 0).float().mean() > 0.9
    assert (scores.grad[..., ~POSSIBLE] == 0).all()


def test_settings():
    config = BamConfig(family="gumbel", temperature=0.1, test_time="expectation", top_k=3)
    assert (config.objective, config.temperature, config.kl_weight) == ("variational", 0.1, 1.0)
    for settings, message in (
        ({"temperature": 0}, "1e-06 or above"),
        ({"objective": "marginal"}, "'variational', 'hard'"),
        ({"top_k": 3, "test_time": "soft"}, "top_k=3 has no effect"),
        ({"estimator": "score"}, "no 'estimator' with family='gumbel'"),
    ):
        with pytest.raises(ValueError, match=message):
            BamConfig(family="gumbel", **settings)
