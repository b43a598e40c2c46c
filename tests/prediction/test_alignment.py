"""`hf_bam.alignments`, against the attention of the plain model and the inference network."""

import pytest
import torch

import hf_bam

from ..models import PAD, bert, marian, translation
from ..patching.forced import BUILDERS, Oracle

pytestmark = pytest.mark.usefixtures("trained_posteriors")


@pytest.mark.parametrize("name", BUILDERS)
def test_the_prior_is_the_attention_of_the_plain_model(name):
    model, batch = BUILDERS[name]().eval(), translation()
    expected = Oracle.of(name, model).soft(batch)
    hf_bam.patch(model, family="categorical")
    found = hf_bam.alignments(model, batch, batch["labels"])
    assert found.q is None
    kept = batch["labels"] != -100
    torch.testing.assert_close(found.p[kept], expected[kept], atol=1e-5, rtol=1e-4)
    assert (found.p[~kept] == 0).all()
    assert (found.p[2, :, 3:] == 0).all()


def test_the_posterior_reads_the_whole_target_and_the_prior_its_past():
    model, batch = hf_bam.patch(marian(init_std=0.5), family="categorical", objective="variational"), translation()
    before = hf_bam.alignments(model, batch, batch["labels"])
    changed = batch["labels"].clone()
    changed[0, 4] = 3 + changed[0, 4] % 20
    after = hf_bam.alignments(model, batch, changed)
    torch.testing.assert_close(after.p[0, :5], before.p[0, :5])
    assert not torch.allclose(after.p[0, 5], before.p[0, 5])
    assert ((after.q - before.q)[0].abs().sum(dim=-1) > 0).all()
    torch.testing.assert_close(after.q[1:], before.q[1:])
    torch.testing.assert_close(before.q.sum(dim=-1), (batch["labels"] != -100).float())


def test_padding_may_be_marked_in_any_way():
    model, batch = hf_bam.patch(marian(), family="categorical", objective="variational"), translation()
    expected = hf_bam.alignments(model, batch, batch["labels"])
    ids = batch["labels"].masked_fill(batch["labels"] == -100, PAD)
    mask = (ids != PAD).long()
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    for given in (
        (batch["input_ids"], ids),
        (source, {"input_ids": ids, "attention_mask": mask}),
        (source, {"labels": batch["labels"], "attention_mask": mask}),
    ):
        found = hf_bam.alignments(model, *given)
        assert torch.equal(found.p, expected.p)
        assert torch.equal(found.q, expected.q)


@pytest.mark.parametrize("mode", ["train", "sampling"])
def test_the_mode_of_the_model_has_no_effect_and_stays(mode):
    settings = {"family": "categorical", "objective": "variational", "test_time": "expectation"}
    model, batch = hf_bam.patch(marian(dropout=0.5), **settings).eval(), translation()
    expected = hf_bam.alignments(model, batch, batch["labels"])
    logits = model(**batch).logits
    if mode == "train":
        model.train()
        found = hf_bam.alignments(model, batch, batch["labels"])
        assert all(module.training for module in model.modules())
        model.eval()
    else:
        with hf_bam.sampling(model):
            found = hf_bam.alignments(model, batch, batch["labels"])
    assert torch.equal(found.p, expected.p)
    assert torch.equal(found.q, expected.q)
    assert torch.equal(model(**batch).logits, logits)


def test_other_families_have_no_alignments():
    with pytest.raises(ValueError, match="family='weibull', which has no alignments"):
        hf_bam.alignments(hf_bam.patch(bert()), torch.zeros(1, 2), torch.zeros(1))
