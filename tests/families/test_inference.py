"""Inference networks."""

import pytest
import torch

from hf_bam.families.inference import LabelInference, SequenceInference

pytestmark = pytest.mark.usefixtures("trained_posteriors")


@pytest.fixture
def inputs():
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    return torch.randn(2, 5, 6), mask, torch.randn(2, 7, 8)


def test_padding_of_the_target_has_no_effect(inputs):
    network = SequenceInference(6, 8, 4)
    target, mask, keys = inputs
    scores = network(target, mask, keys)
    assert scores.shape == (2, 5, 7)
    torch.testing.assert_close(scores[1, :3], network(target[1:, :3], mask[1:, :3], keys[1:])[0])
    longer = torch.cat([target, torch.randn(2, 4, 6)], dim=1), torch.cat([mask, torch.zeros(2, 4, dtype=bool)], dim=1)
    torch.testing.assert_close(network(*longer, keys)[:, :5][mask], scores[mask])


def test_every_position_reads_the_whole_target(inputs):
    network = SequenceInference(6, 8, 4)
    target, mask, keys = inputs
    target.requires_grad_()
    for position in (0, 4):
        (gradient,) = torch.autograd.grad(network(target, mask, keys)[0, position].sum(), target)
        assert (gradient[0].abs().sum(dim=-1) > 0).all()
        assert (gradient[1] == 0).all()


def test_scores_are_bilinear_in_states_and_keys(inputs):
    network = SequenceInference(6, 8, 4).double()
    target, mask, keys = (x.double() if x.is_floating_point() else x for x in inputs)
    states, _ = network.lstm(target[:1])
    expected = torch.einsum("btd,fd,bsf->bts", states, network.bilinear, keys[:1])
    torch.testing.assert_close(network(target, mask, keys)[:1], expected)


def test_labels_have_a_vector_each():
    network, keys = LabelInference(3, 8), torch.randn(2, 7, 8)
    scores = network(torch.tensor([2, -100]), keys)
    assert scores.shape == (2, 1, 7)
    torch.testing.assert_close(scores[0, 0], keys[0] @ network.vectors[2])
    assert torch.isfinite(scores).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_half_precision_are_single(inputs, dtype):
    target, mask, keys = inputs
    network = SequenceInference(6, 8, 4)
    exact = network(target, mask, keys)
    with torch.autocast("cpu", dtype=dtype):
        found = network(target.to(dtype), mask, keys.to(dtype))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[mask], exact[mask], atol=0.05, rtol=0.05)
