"""A latent alignment of a classifier that is learned: two words of an input name classes, and one of them is right."""

import pytest
import torch

import hf_bam

from ..models import LABELS, bert

LENGTH, STEPS = 8, 250
FIRST = 10
"""Token that names class 0; others follow."""


def corpus(number, generator):
    """Return a batch, and the position of the token that names the label, (B,)."""
    ids = torch.randint(20, 60, (number, LENGTH), generator=generator)
    places = torch.stack([1 + torch.randperm(LENGTH - 1, generator=generator)[:2] for _ in range(number)])
    classes = torch.stack([torch.randperm(LABELS, generator=generator)[:2] for _ in range(number)])
    ids.scatter_(1, places, FIRST + classes)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": classes[:, 0]}, places[:, 0]


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model = bert(num_hidden_layers=1, initializer_range=0.1)
    hf_bam.patch(model, family="categorical", objective="variational")
    optimizer, generator = torch.optim.Adam(model.train().parameters(), lr=3e-3), torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(**corpus(64, generator)[0]).loss.backward()
        optimizer.step()
    return model.eval(), *corpus(300, torch.Generator().manual_seed(2))


@torch.no_grad()
@pytest.mark.slow
def test_the_posterior_finds_the_word_that_names_the_label(trained):
    model, batch, places = trained
    found = hf_bam.alignments(model, {n: x for n, x in batch.items() if n != "labels"}, batch["labels"])
    assert (found.q[:, 0].argmax(dim=-1) == places).float().mean() > 0.95
    assert found.p[:, 0].gather(1, places[:, None]).mean() == pytest.approx(0.5, abs=0.1)


@torch.no_grad()
@pytest.mark.slow
def test_the_prediction_is_the_expectation(trained):
    """Both classes that an input names are equally probable."""
    model, batch, _ = trained
    out = model(**batch)
    probabilities = out.logits.softmax(dim=-1)
    named = torch.stack([(batch["input_ids"] == FIRST + label).any(dim=1) for label in range(LABELS)], dim=1)
    assert probabilities[named].mean() == pytest.approx(0.5, abs=0.05)
    settings = hf_bam.get_config(model)
    expectation = hf_bam.patch(model, settings, test_time="expectation")(**batch)
    torch.testing.assert_close(out.loss, expectation.loss)
    bound = hf_bam.patch(model, settings).train()(**batch).loss
    with_prior = hf_bam.patch(model, settings, objective="hard").train()(**batch).loss
    assert out.loss < bound < with_prior
    assert bound - out.loss < 0.3 * (with_prior - out.loss)
    hf_bam.patch(model, settings).eval()
