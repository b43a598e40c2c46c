"""A patched model, and the comparison of two."""

import torch

import hf_bam

from ..models import bert


def patched_bert():
    """Return a patched model in evaluation mode, with settings and an annealing step that are not the defaults."""
    torch.manual_seed(0)
    model = hf_bam.patch(bert(), k=2.0, beta=30.0, layers=[1])
    hf_bam.set_step(model, 7)
    return model.eval()


def sample_logits(model, batch):
    """Return the logits of one sample, under a fixed seed."""
    with torch.no_grad(), hf_bam.sampling(model, seed=3):
        return model(**batch).logits


@torch.no_grad()
def assert_same_model(one, other, batch):
    """Check that class, settings, weights, mean prediction and a sample of two models are equal."""
    assert type(one) is type(other)
    assert hf_bam.get_config(one) == hf_bam.get_config(other)
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    torch.testing.assert_close(one(**batch).logits, other(**batch).logits, rtol=0, atol=0)
    torch.testing.assert_close(sample_logits(one, batch), sample_logits(other, batch), rtol=0, atol=0)
