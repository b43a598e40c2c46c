"""A latent alignment that is learned: words of the source in random order, whose alignment the target shows."""

import copy

import pytest
import torch

import hf_bam

from ..models import recurrent

WORDS, LENGTH, STEPS = 20, 6, 250


def corpus(number, generator):
    """Return sources, targets of their translated words in random order, and the true alignments, (B, T)."""
    source = torch.stack([torch.randperm(WORDS, generator=generator)[:LENGTH] for _ in range(number)])
    order = torch.stack([torch.randperm(LENGTH, generator=generator) for _ in range(number)])
    labels = source.gather(1, order) + 30
    return {"input_ids": source + 5, "attention_mask": torch.ones_like(source), "labels": labels}, order


@pytest.fixture(scope="module")
def trained():
    """Return models that were trained with each objective, and a test set with its alignments."""
    models = {}
    for objective in ("soft", "marginal", "variational"):
        torch.manual_seed(0)
        model = recurrent(input_feeding=False, num_attention_heads=1, hidden_size=48)
        if objective != "soft":
            hf_bam.patch(model, family="categorical", objective=objective, d_inference=32)
        optimizer = torch.optim.Adam(model.train().parameters(), lr=3e-3)
        generator = torch.Generator().manual_seed(1)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(**corpus(32, generator)[0]).loss.backward()
            optimizer.step()
        models[objective] = model.eval()
    return models, *corpus(200, torch.Generator().manual_seed(2))


@torch.no_grad()
@pytest.mark.slow
def test_the_gap_of_the_bound_is_smaller_than_with_the_prior_as_posterior(trained):
    models, batch, _ = trained
    model = copy.deepcopy(models["variational"])
    marginal = model(**batch).loss  # the expectation, since it is trained
    bound = model.train()(**batch).loss
    with_prior = hf_bam.patch(model, hf_bam.get_config(model), objective="hard").train()(**batch).loss
    assert marginal < bound < with_prior
    assert bound - marginal < 0.2 * (with_prior - marginal)


@torch.no_grad()
@pytest.mark.slow
def test_latent_alignments_have_a_lower_loss_than_soft_attention(trained):
    models, batch, _ = trained
    losses = {name: model(**batch).loss for name, model in models.items()}
    assert losses["marginal"] < losses["soft"] - 0.1
    assert losses["variational"] < losses["soft"] - 0.1


@torch.no_grad()
@pytest.mark.slow
def test_the_posterior_knows_the_alignment_and_the_prior_cannot(trained):
    """The prior cannot know which of the remaining words comes next."""
    models, batch, order = trained
    best = (1 / torch.arange(LENGTH, 0, -1)).mean()  # a guess among the remaining words
    found = hf_bam.alignments(models["variational"], batch, batch["labels"])
    assert (found.q.argmax(dim=-1) == order).float().mean() > 0.95
    assert abs((found.p.argmax(dim=-1) == order).float().mean() - best) < 0.1


@torch.no_grad()
@pytest.mark.slow
def test_the_expectation_begins_with_training(trained):
    models, batch, _ = trained
    model = models["marginal"]
    settings = hf_bam.get_config(model)
    found = model(**batch).loss
    assert settings.test_time == "auto"
    expectation = hf_bam.patch(model, settings, test_time="expectation")(**batch).loss
    soft = hf_bam.patch(model, settings, test_time="soft")(**batch).loss
    hf_bam.patch(model, settings)
    torch.testing.assert_close(found, expectation)
    assert soft > found + 0.3  # single positions were trained, and means of several were not
    hf_bam.set_step(model, 0)
    torch.testing.assert_close(model(**batch).loss, soft)
    hf_bam.set_step(model, STEPS)
