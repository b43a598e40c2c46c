"""Objectives of latent alignments, against torch.distributions and sums written out."""

import math

import pytest
import torch
from torch import distributions

from hf_bam.objective import AlignmentKl
from hf_bam.objective.alignment import (
    categorical_kl,
    differentiable_mixture,
    expected,
    log_likelihood,
    marginal,
    mixture,
    score_function,
    token_mean,
)


def logs(*shape):
    return torch.randn(shape, dtype=torch.float64).log_softmax(dim=0)


def test_the_kl_of_categoricals_is_that_of_torch():
    q, p = torch.randn(2, 5, 7, dtype=torch.float64).log_softmax(dim=-1)
    wanted = distributions.kl_divergence(distributions.Categorical(logits=q), distributions.Categorical(logits=p))
    torch.testing.assert_close(categorical_kl(q, p), wanted)
    torch.testing.assert_close(categorical_kl(q.T, p.T, dim=0), wanted)


def test_impossible_positions_have_no_part_in_the_kl_and_get_no_gradient():
    scores = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    masked = scores.masked_fill(torch.arange(6) > 3, -math.inf)
    q, p = masked.log_softmax(dim=-1)
    torch.testing.assert_close(categorical_kl(q, p), categorical_kl(*scores[..., :4].log_softmax(dim=-1)))
    categorical_kl(q, p).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[..., 4:] == 0).all()


def test_the_likelihood_is_that_of_torch_and_ignores_what_is_ignored():
    logits, labels = torch.randn(3, 2, 4, 5), torch.tensor([[1, 4, 0, -100], [2, 2, -100, -100]])
    wanted = distributions.Categorical(logits=logits).log_prob(labels.clamp(min=0))
    torch.testing.assert_close(log_likelihood(logits, labels), wanted)
    assert token_mean(torch.arange(8.0).view(2, 4), labels).item() == pytest.approx((0 + 1 + 2 + 4 + 5) / 5)
    assert token_mean(torch.full((1, 2), math.nan), torch.full((1, 2), -100)).item() == 0


def test_a_mean_is_over_tokens_and_a_sum_over_those_of_an_example():
    labels = torch.tensor([[1, 4, 0], [2, -100, -100]])
    kl = AlignmentKl(torch.tensor([[1.0, 2.0, 3.0], [6.0, math.nan, math.nan]]))
    assert kl.reduce("mean", labels).item() == 3.0
    assert kl.reduce("sum", labels).item() == 6.0
    assert AlignmentKl(torch.tensor([[1.0], [3.0]])).reduce("mean", torch.tensor([0, 1])).item() == 2.0


def test_marginal_and_expected_written_out():
    log_f, log_w = -torch.rand(4, 2, 3, dtype=torch.float64) * 5, logs(4, 2, 3)
    torch.testing.assert_close(
        marginal(log_f, log_w), sum(w.exp() * f.exp() for f, w in zip(log_f, log_w, strict=True)).log()
    )
    torch.testing.assert_close(expected(log_f, log_w), sum(w.exp() * f for f, w in zip(log_f, log_w, strict=True)))
    impossible = torch.cat([log_w, torch.full((1, 2, 3), -math.inf)])
    more = torch.cat([log_f, torch.randn(1, 2, 3)])
    torch.testing.assert_close(marginal(more, impossible), marginal(log_f, log_w))
    torch.testing.assert_close(expected(more, impossible), expected(log_f, log_w))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_mixtures(dtype):
    logits, log_w = torch.randn(4, 2, 3, 6, dtype=torch.float64), logs(4, 2, 3)
    wanted = (log_w.exp()[..., None] * logits.softmax(dim=-1)).sum(dim=0).log()
    tolerance = {} if dtype is torch.float64 else {"atol": 0.05, "rtol": 0.02}
    for mix in (mixture, differentiable_mixture):
        found = mix(logits.to(dtype), log_w)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, **tolerance)


def test_the_score_function_has_the_value_of_the_sample_and_both_gradients():
    log_f, log_q = (torch.tensor(x, requires_grad=True) for x in (-2.0, -1.5))
    value = score_function(log_f, log_q, baseline=torch.tensor(-5.0))
    value.backward()
    assert value.item() == -2.0
    assert (log_f.grad.item(), log_q.grad.item()) == (1.0, 3.0)
