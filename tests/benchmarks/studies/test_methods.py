"""Noise levels of the methods."""

import math

import pytest
import torch

import hf_bam
from benchmarks.studies.methods import Selection, select, selection_record, with_noise, with_shape
from tests.models import bert


def test_the_level_with_the_smallest_loss_is_selected():
    losses = {5.0: 0.4, 1.0: 0.3, 0.5: 0.6}
    assert select(losses, losses.get) == Selection(1.0, losses)


def test_a_single_level_is_not_evaluated():
    assert select({None: "sampler"}, lambda level: pytest.fail("was evaluated")) == Selection(None, {})


def test_the_record_has_the_methods_with_a_choice():
    selections = {"plain": Selection(None, {}), "MC dropout": Selection(0.1, {0.05: 0.4, 0.1: 0.3})}
    expected = {"MC dropout": {"level": 0.1, "losses": {"0.05": 0.4, "0.1": 0.3}}}
    assert selection_record(selections) == expected


@pytest.mark.parametrize("family", ["weibull", "lognormal"])
def test_noise_of_both_families_is_as_wide(family):
    """The logarithm of a Weibull variable of shape k has the standard deviation pi / sqrt(6) / k."""
    config = with_shape(hf_bam.BamConfig(family=family), 2.0)
    width = config.sigma if family == "lognormal" else math.pi / math.sqrt(6) / config.k
    assert width == pytest.approx(0.6413, abs=1e-4)


def test_noise_is_added_to_a_copy():
    model = bert(num_labels=2)
    sampler = with_noise(model, hf_bam.BamConfig(prior="none"), 1.0)
    assert not hf_bam.is_patched(model)
    assert hf_bam.get_config(sampler.model).k == 1
    assert torch.equal(sampler.model.classifier.weight, model.classifier.weight)
