"""The naive attention that Bayesian attention is compared with."""

import pytest
import torch

import hf_bam
from benchmarks.cost import naive
from tests.models import bert


def test_naive_attention_has_the_kl_of_the_package_and_the_mean_of_vanishing_noise():
    """The KL does not depend on the noise."""
    torch.manual_seed(0)
    model = hf_bam.patch(bert(num_labels=2), k=1e6, beta=1.0).train()
    ids = torch.randint(3, 60, (3, 9))
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(9) < torch.tensor([[9], [6], [4]])).long()}
    expected = model(**inputs, labels=torch.tensor([0, 1, 0]))
    model.set_attn_implementation(naive.NAME)
    found = model(**inputs, labels=torch.tensor([0, 1, 0]))
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-3, atol=1e-4)
    assert found.kl.item() == pytest.approx(expected.kl.item(), rel=1e-4)
