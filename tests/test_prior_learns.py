"""The contextual prior learns which keys matter, and with the paper's beta it does not."""

import math

import pytest
import torch

import hf_bam

from .models import bert

LENGTH = 16


def marked_token_task(generator, size):
    """The label is the token at the one position whose token type is 1; the other tokens are drawn at random."""
    ids = torch.randint(3, 5, (size, LENGTH), generator=generator)
    place = torch.randint(1, LENGTH, (size, 1), generator=generator)
    types = torch.zeros_like(ids).scatter(1, place, 1)
    labels = ids.gather(1, place)[:, 0] - 3
    ids[:, 0] = 2
    return {"input_ids": ids, "token_type_ids": types, "labels": labels}, place


def train(**settings):
    """Task accuracy, and of the prior attention: entropy relative to the uniform one, and mass on the marked key."""
    generator = torch.Generator().manual_seed(0)
    model = hf_bam.patch(bert(num_hidden_layers=1, num_attention_heads=2, num_labels=2), **settings).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(400):
        model(**marked_token_task(generator, 64)[0]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    batch, place = marked_token_task(generator, 256)
    seen = []
    layer = model.bert.encoder.layer[0].attention.self.bam
    layer.prior.register_forward_hook(lambda module, args, output: seen.append(output.detach()))
    accuracy = (model(**batch).logits.argmax(-1) == batch["labels"]).float().mean().item()
    psi = seen[0].exp()[:, :, 0]  # (B, H, S)
    entropy = -(psi * psi.log()).sum(-1).mean().item() / math.log(LENGTH)
    mass = psi.gather(-1, place[:, None].expand(-1, psi.shape[1], 1)).mean().item()
    return accuracy, entropy, mass


def test_the_default_prior_finds_the_key_that_matters():
    accuracy, entropy, mass = train()
    assert accuracy > 0.95
    assert entropy < 0.85
    assert mass > 4 / LENGTH


@pytest.mark.parametrize("prior_shape", ["beta*psi", "psi"])
def test_with_the_beta_of_the_paper_the_prior_stays_uniform(prior_shape):
    accuracy, entropy, mass = train(beta=1e-2, prior_shape=prior_shape)
    assert accuracy > 0.95
    assert entropy > 0.99
    assert mass < 1.6 / LENGTH
