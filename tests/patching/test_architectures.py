"""Every architecture in docs/architectures.md: same numbers in mean mode, stochastic otherwise, KL with a gradient."""

import copy
from pathlib import Path

import pytest
import torch
from transformers import (
    LongformerConfig,
    LongformerForSequenceClassification,
    MambaConfig,
    MambaForCausalLM,
    XLNetConfig,
    XLNetForSequenceClassification,
)

import hf_bam

from ..models import ARCHITECTURES, PAD, PROMISED, VOCABULARY

PADDED, UNPADDED = (7, 5, 3), (7, 7, 7)
COMMON = {"c_attn", "in_proj", "query_key_value"}
LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    return ARCHITECTURES[request.param]


@pytest.mark.parametrize("lengths", [PADDED, UNPADDED], ids=["padded", "unpadded"])
@pytest.mark.parametrize("with_mask", [True, False], ids=["mask", "no mask"])
def test_mean_mode_gives_the_numbers_of_the_unpatched_model(architecture, lengths, with_mask):
    model, batch = architecture.build().eval(), architecture.batch(lengths)
    if not with_mask:
        batch.pop("attention_mask", None)
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    hf_bam.patch(model)
    with torch.no_grad():
        ours, theirs = model(**batch), eager(**batch)
    assert type(ours) is type(theirs)
    assert list(ours) == list(theirs)
    torch.testing.assert_close(ours.loss, theirs.loss, atol=1e-5, rtol=0)
    real = torch.ones(ours.logits.shape[:-1], dtype=torch.bool)
    if ours.logits.dim() == 3 and ours.logits.shape[:2] == batch["labels"].shape:
        real = batch["labels"] != -100  # what a padded query gives is nobody's business
    torch.testing.assert_close(ours.logits[real], theirs.logits[real], atol=1e-5, rtol=0)


def test_vanishing_noise_gives_the_unpatched_model(architecture):
    model, batch = architecture.build().eval(), architecture.batch()
    with torch.no_grad():
        expected = model(**batch).loss
        for settings in ({"k": 1e7}, {"family": "lognormal", "sigma": 1e-7}):
            hf_bam.patch(model, **settings)
            with hf_bam.sampling(model):
                torch.testing.assert_close(model(**batch).loss, expected, atol=1e-5, rtol=0)


def test_sampling_is_random_reproducible_and_ends(architecture):
    model, batch = hf_bam.patch(architecture.build(), k=1.0).eval(), architecture.batch()
    with torch.no_grad():
        mean = model(**batch).logits
        with hf_bam.sampling(model, seed=5):
            first, second = model(**batch).logits, model(**batch).logits
        with hf_bam.sampling(model, seed=5):
            again = model(**batch).logits
        with hf_bam.sampling(model, seed=6):
            other = model(**batch).logits
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
        assert not torch.equal(first, other)
        assert not torch.equal(first, mean)
        assert torch.equal(model(**batch).logits, mean)


@pytest.mark.parametrize("noise", ["entry", "key"])
def test_the_kl_is_in_the_loss_and_reaches_queries_keys_and_prior(architecture, noise):
    if noise == "key" and architecture is ARCHITECTURES["recurrent"]:
        pytest.skip("its attention runs step by step: see tests/recurrent/test_patching.py")
    model, batch = hf_bam.patch(architecture.build(), noise=noise).train(), architecture.batch()
    out = model(**batch)
    torch.testing.assert_close(out.loss, out.task_loss + out.kl_loss)
    torch.testing.assert_close(out.kl_loss, hf_bam.get_config(model).kl_weight * out.kl)
    out.kl.backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    attention = [name for name, module in model.named_modules() if hasattr(module, "bam")]
    assert attention
    for name in attention:
        inside = [parameter.removeprefix(name + ".") for parameter in touched if parameter.startswith(name + ".")]
        assert any(parameter.startswith("bam.prior.hidden_weight") for parameter in inside), name
        assert any(parameter.startswith("bam.prior.logit_weight") for parameter in inside), name
        # One projection of its own for queries and keys each, or a common one.
        projections = {p.removesuffix(".weight") for p in inside if p.endswith(".weight") and not p.startswith("bam.")}
        assert projections & COMMON or len({p for p in projections if p[0] in "qk"}) >= 2


@pytest.mark.parametrize("family", ["weibull", "lognormal"])
@pytest.mark.parametrize("prior", ["contextual", "fixed", "none"])
@pytest.mark.parametrize("noise", ["entry", "key"])
@pytest.mark.parametrize("name", ["albert", "bert", "marian"])
def test_every_combination_trains(name, family, prior, noise):
    architecture = PROMISED[name]
    model = hf_bam.patch(architecture.build(), family=family, prior=prior, noise=noise).train()
    batch, optimizer = architecture.batch(), torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        out = model(**batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
        assert torch.isfinite(out.loss)
        assert out.kl >= 0
        assert (out.kl.item() == 0) == (prior == "none")
    assert losses[-1] < losses[0] - 0.05


def test_the_attention_weights_are_those_that_were_used(architecture):
    model, batch = hf_bam.patch(architecture.build(), k=1.0).eval(), architecture.batch()
    with torch.no_grad(), hf_bam.sampling(model):
        out = model(**batch, output_attentions=True)
        other = model(**batch, output_attentions=True)
    given = [name for name in out if name.endswith("attentions")]
    assert given
    for name in given:
        for weights, others in zip(out[name], other[name], strict=True):
            assert weights.min() >= 0
            rows = weights.sum(-1)
            assert ((rows - 1).abs() < 1e-5).logical_or(rows == 0).all()
            assert not torch.equal(weights, others)


UNSUPPORTED = {
    "XLNetRelativeAttention": lambda: XLNetForSequenceClassification(
        XLNetConfig(vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=48, pad_token_id=PAD)
    ),
    "LongformerAttention": lambda: LongformerForSequenceClassification(
        LongformerConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            attention_window=4,
            pad_token_id=PAD,
        )
    ),
    "MambaForCausalLM": lambda: MambaForCausalLM(
        MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2)
    ),
}


@pytest.mark.parametrize("named", UNSUPPORTED)
def test_attention_that_cannot_be_reached_is_named_and_nothing_is_changed(named):
    model = UNSUPPORTED[named]()
    keys, implementation = set(model.state_dict()), model.config._attn_implementation
    with pytest.raises(hf_bam.UnsupportedModelError, match=named):
        hf_bam.patch(model)
    assert not hf_bam.is_patched(model)
    assert set(model.state_dict()) == keys
    assert model.config._attn_implementation == implementation
    assert not any(hasattr(module, "bam") for module in model.modules())


def test_the_table_in_the_docs_lists_what_is_tested():
    rows = (Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8").splitlines()
    listed = {row.split("|")[1].strip().strip("`") for row in rows if row.startswith("| `")}
    assert listed == set(ARCHITECTURES) | {"xlnet", "longformer", "mamba"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
@pytest.mark.parametrize("build", ["bert", "llama"])
def test_a_mask_of_integers_in_four_dimensions_hides_keys(build, dtype):
    """Zeros hide and ones show, as in two dimensions; a mask of floating-point numbers is added to the scores."""
    architecture = ARCHITECTURES[build]
    model, batch = architecture.build(initializer_range=0.3).eval(), architecture.batch()
    shown = torch.ones(7, 7, dtype=torch.bool).tril()[None, None] & (torch.rand(3, 1, 7, 7) > 0.4)
    shown |= torch.eye(7, dtype=torch.bool)
    mask = shown.to(dtype) if dtype != torch.float32 else torch.zeros(shown.shape).masked_fill(~shown, LOWEST)
    with torch.no_grad():
        expected = model(batch["input_ids"], attention_mask=shown).logits
        hf_bam.patch(model, k=1e7)
        torch.testing.assert_close(model(batch["input_ids"], attention_mask=mask).logits, expected)
        for options in ({}, {"output_attentions": True}):
            with hf_bam.sampling(model):
                actual = model(batch["input_ids"], attention_mask=mask, **options).logits
            torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)
