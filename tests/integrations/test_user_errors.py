"""Common mistakes raise an error with the way out."""

import pytest
import torch
from torch import nn

import hf_bam

from ..models import bert, classification


def test_sampling_a_plain_model():
    with pytest.raises(ValueError, match=r"call hf_bam\.patch\(model\) first"), hf_bam.sampling(bert()):
        pass


def test_the_kl_before_any_forward():
    model = hf_bam.patch(bert()).eval()
    with pytest.raises(RuntimeError, match=r"model\.train\(\)"):
        hf_bam.kl_loss(model)
    model(**classification())
    with pytest.raises(RuntimeError, match=r"model\.train\(\)"):
        hf_bam.kl_loss(model)


def test_the_kl_of_a_model_inside_a_custom_module():
    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = hf_bam.patch(bert().bert, kl_weight=0.5)
            self.head = nn.Linear(32, 2)

        def forward(self, **inputs):
            return self.head(self.encoder(**inputs, return_dict=False)[1])

    model, batch = Custom().train(), classification()
    batch.pop("labels")
    model(**batch)
    hf_bam.kl_loss(model).backward()
    gradients = [p.grad for name, p in model.named_parameters() if name.endswith("logit_weight")]
    assert len(gradients) == 2
    assert all(gradient.any() for gradient in gradients)


def step(model, *optimizers):
    model.train()(**classification()).loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


def test_an_optimizer_made_before_patching():
    model = bert()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    hf_bam.patch(model)
    step(model, optimizer)
    with pytest.raises(RuntimeError, match="Patch the model first, then make the optimizer"):
        step(model, optimizer)


def test_a_separate_optimizer_for_the_prior():
    model = hf_bam.patch(bert())
    prior = [p for name, p in model.named_parameters() if ".bam." in name]
    others = [p for name, p in model.named_parameters() if ".bam." not in name]
    optimizers = [torch.optim.SGD(others, lr=1e-3), torch.optim.SGD(prior, lr=1e-2)]
    for _ in range(4):
        step(model, *optimizers)
    assert model.bam_step.item() == 4
