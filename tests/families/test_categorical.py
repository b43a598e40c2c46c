"""Categorical alignments: samples, alternatives and settings of the family."""

import pytest
import torch
from scipy import stats

from hf_bam import BamConfig
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime
from hf_bam.families import CategoricalFamily
from hf_bam.families.alignment import log_prior
from hf_bam.families.discrete import draw_index, top_positions

from .alignment_case import PROBABILITIES, Sampled


def test_samples_follow_their_distribution():
    case = Sampled(20_000)
    drawn = draw_index(case.log_p(), case.call())
    counts = torch.bincount(drawn.flatten(), minlength=6)
    possible = PROBABILITIES > 0
    assert (counts[~possible] == 0).all()
    expected = PROBABILITIES[possible] * case.queries
    assert stats.chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("number", [0.0, 1e-9, 1 - 2.0**-24, 1.0])
def test_the_ends_of_the_unit_interval_give_possible_positions(number, monkeypatch):
    case = Sampled(3)
    monkeypatch.setattr(AttentionCall, "uniform", lambda self, *args, **kwargs: torch.full((1, 1, 3, 1), number))
    drawn = draw_index(case.log_p(), case.call())
    assert PROBABILITIES[drawn].gt(0).all()
    assert (drawn == (0 if number < 0.5 else 4)).all()


def test_the_prior_is_the_mean_of_the_heads():
    case = Sampled(3)
    weights = torch.rand(1, 2, 3, 6) * (PROBABILITIES > 0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    log_p = log_prior(weights, case.call())
    torch.testing.assert_close(log_p.exp(), (weights[:, 0] + weights[:, 1]) / 2)
    assert (log_p[..., [1, 5]] == -torch.inf).all()


def test_a_query_that_may_attend_to_nothing_stays_finite():
    layer = BamLayer(CategoricalFamily(), Runtime(), head_dim=4).eval()
    mask = AttentionMask((2, 1, 1, 3), torch.tensor([[True, True, False], [False, False, False]])[:, None, None])
    tensors = torch.zeros(3, 2, 1, 3, 4)
    call = AttentionCall(layer, 0, tensors[0, :, :, :1], *tensors[1:], mask, scale=1.0)
    weights = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]])[:, None, None].requires_grad_()
    log_p = log_prior(weights, call)
    torch.testing.assert_close(log_p.exp().sum(dim=-1), torch.ones(2, 1))
    log_p.masked_fill(log_p == -torch.inf, 0.0).sum().backward()
    assert torch.isfinite(weights.grad).all()
    assert (layer.family.sample(weights.detach(), call)[1] == 0).all()


def test_the_k_best_positions():
    assert top_positions(PROBABILITIES.log()[None, None], 3).tolist() == [[[0, 2, 3]]]
    assert top_positions(PROBABILITIES.log()[None, None], 10).shape == (1, 1, 6)


def test_defaults_of_the_family():
    config = BamConfig(family="categorical")
    assert (config.kl_weight, config.layers, config.attention) == (1.0, 1, "alignment")
    assert BamConfig(family="categorical", kl_weight=0.5, layers="all").layers == "all"
    assert BamConfig(family="categorical", kl_weight=0.5).replace(objective="hard").kl_weight == 0.5


def test_another_family_gets_its_own_defaults_and_keeps_what_was_set():
    assert BamConfig(layers=2).replace(family="categorical") == BamConfig(family="categorical", layers=2)
    assert BamConfig(family="categorical", annealing="linear").replace(family="weibull") == BamConfig(
        annealing="linear"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "score"}, "estimator='score' is not valid with objective='marginal'.*top_k"),
        (
            {"objective": "hard", "estimator": "score", "top_k": 3, "test_time": "soft"},
            "top_k=3 has no effect",
        ),
        ({"objective": "soft"}, "'marginal', 'hard', 'variational'"),
        ({"estimator": "sample"}, "'enumerate', 'score'"),
        ({"top_k": 0}, "1 or above"),
        ({"test_time": "mean"}, "'auto', 'soft', 'expectation'"),
        ({"noise": "key"}, "no 'noise' with family='categorical'"),
        ({"prior": "fixed"}, "no 'prior' with family='categorical'"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        BamConfig(family="categorical", **settings)
