"""Posteriors before training, which are the prior."""

import pytest
import torch

import hf_bam

from ..models import bert, classification, translation
from .forced import BUILDERS
from .test_alignment_modes import train

CASES = {name: (build, translation) for name, build in BUILDERS.items()} | {"bert": (bert, classification)}


@pytest.fixture(params=CASES)
def case(request):
    build, batch = CASES[request.param]
    return build().double(), batch()


def test_the_bound_is_that_of_hard_attention(case):
    """Loss and gradients: the KL has its minimum where the posterior is the prior."""
    model, batch = case
    hf_bam.patch(model, family="categorical", objective="variational")
    variational, found = train(model.train(), batch)
    networks = {name: found.pop(name) for name in [*found] if ".inference." in name}
    hard, expected = train(hf_bam.patch(model, family="categorical", objective="hard"), batch)
    torch.testing.assert_close(variational.kl, torch.zeros_like(variational.kl), atol=1e-12, rtol=0)
    torch.testing.assert_close(variational.loss, hard.loss)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-6, atol=1e-9)
    assert any(gradient.any() for gradient in networks.values())


@pytest.mark.parametrize("family", ["gumbel", "dirichlet"])
def test_relaxed_posteriors_have_no_kl(case, family):
    model, batch = case
    out, found = train(hf_bam.patch(model, family=family).train(), batch)
    torch.testing.assert_close(out.kl, torch.zeros_like(out.kl), atol=1e-9, rtol=0)
    assert any(gradient.any() for name, gradient in found.items() if ".inference." in name)
    labels = batch.pop("labels")
    both = hf_bam.alignments(model, batch, labels)
    torch.testing.assert_close(both.q, both.p)
