"""The KL of whole models: against scipy, under padding, over micro-batches, with checkpointing."""

import math

import pytest
import torch
from scipy import stats
from torch.nn.functional import pad
from transformers import BertForMultipleChoice

import hf_bam

from ..families.test_weibull import scipy_weibull
from ..models import PAD, PROMISED, albert, bert, classification, marian, text, translation
from ..objective.test_kl import numerical_kl

TEXT = {name: PROMISED[name] for name in ("albert", "bert", "bert-decoder", "bert2bert", "marian")}


@pytest.fixture(params=TEXT)
def architecture(request):
    return TEXT[request.param]


def pad_right(batch, by):
    """The same batch, padded further on the right."""
    fill = {"input_ids": PAD, "attention_mask": 0, "labels": -100}
    return {name: pad(x, (0, by), value=fill[name]) if x.dim() == 2 else x for name, x in batch.items()}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def expected_entry(mean, keys, k, beta):
    """KL of one weight with the fixed prior, from scipy's densities."""
    prior = stats.gamma(beta / keys, scale=1 / beta)
    location = math.log(mean / math.gamma(1 + 1 / k))
    return numerical_kl(scipy_weibull(k, mean), prior, location, 1 / k, lowest=-60, highest=5)


def test_bert_against_scipy_and_the_attention_of_the_unpatched_model():
    model, batch = bert(num_hidden_layers=1, num_attention_heads=2), classification((3, 2), 3)
    model.set_attn_implementation("eager")
    attention = model.eval()(**batch, output_attentions=True).attentions[0].double()
    expected = []
    for example, length in enumerate((3, 2)):
        weights = attention[example, :, :length, :length].flatten().tolist()
        expected.append(sum(expected_entry(w, length, 4.0, 8.0) for w in weights) / len(weights))
    hf_bam.patch(model, k=4.0, beta=8.0, prior="fixed").train()
    assert model(**batch).kl.item() == pytest.approx(sum(expected) / 2, rel=1e-5)


def test_marian_decoder_against_scipy_counts_only_real_queries():
    """Cross-attention: keys from the source mask, queries from the labels."""
    model, batch = marian(encoder_layers=1, decoder_layers=1), translation((4, 3), 4)
    model.set_attn_implementation("eager")
    attention = model.eval()(**batch, output_attentions=True).cross_attentions[0].double()
    expected = []
    for example, (queries, keys) in enumerate(((3, 4), (2, 3))):
        weights = attention[example, :, :queries, :keys].flatten().tolist()
        expected.append(sum(expected_entry(w, keys, 4.0, 8.0) for w in weights) / len(weights))
    # Vanishing noise in the layers before would need a large k; selecting cross-attention only makes it exact.
    hf_bam.patch(model, k=4.0, beta=8.0, prior="fixed", attention="cross").train()
    assert model(**batch).kl.item() == pytest.approx(sum(expected) / 2, rel=1e-5)


def test_all_twelve_uses_of_alberts_shared_layer_count():
    model, batch = albert().double(), classification()
    parts = [hf_bam.patch(model, k=1e8, layers=[i], kl_reduction="sum").train()(**batch).kl for i in range(12)]
    together = hf_bam.patch(model, k=1e8, kl_reduction="sum")(**batch).kl
    assert len({round(part.item(), 9) for part in parts}) == 12
    torch.testing.assert_close(together, torch.stack(parts).sum(), rtol=1e-6, atol=0)
    average = hf_bam.patch(model, k=1e8)(**batch).kl
    alone = torch.stack([hf_bam.patch(model, k=1e8, layers=[i])(**batch).kl for i in range(12)])
    torch.testing.assert_close(average, alone.mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("family", ["weibull", "lognormal"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_further_padding_changes_nothing(architecture, noise, family, reduction):
    settings = {"noise": noise, "family": family, "kl_reduction": reduction}
    settings |= {"k": 1e8} if family == "weibull" else {"sigma": 1e-8}
    model, batch = hf_bam.patch(architecture.build().double(), **settings).train(), architecture.batch()
    narrow, wide = model(**batch), model(**pad_right(batch, 5))
    torch.testing.assert_close(narrow.kl, wide.kl, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(narrow.task_loss, wide.task_loss, rtol=1e-6, atol=1e-9)


def test_further_padding_changes_nothing_for_multiple_choice():
    """Its inputs are (B, choices, L), and every choice is an example."""
    model = hf_bam.patch(BertForMultipleChoice(bert().config).double(), k=1e8).train()
    flat = text((7, 5, 3, 6))
    narrow, wide = ({name: x.reshape(2, 2, -1) for name, x in batch.items()} for batch in (flat, pad_right(flat, 4)))
    labels = torch.tensor([0, 1])
    torch.testing.assert_close(model(**narrow, labels=labels).kl, model(**wide, labels=labels).kl, rtol=1e-6, atol=0)


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_micro_batches_of_equal_size_give_the_gradient_of_the_whole_batch(architecture, noise, reduction):
    """Whatever the lengths: the reduction is within an example first, and a mean over examples then."""
    model = hf_bam.patch(architecture.build().double(), k=1e8, noise=noise, kl_reduction=reduction).train()
    batch = architecture.batch((7, 2, 5, 3), 7)
    model(**batch).kl.backward()
    whole = gradients(model)
    model.zero_grad()
    for part in (slice(0, 2), slice(2, 4)):
        (model(**{name: tensor[part] for name, tensor in batch.items()}).kl / 2).backward()
    assert whole
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-9)


def test_micro_batches_of_unequal_size_need_their_share_of_the_examples():
    model, batch = hf_bam.patch(bert().double(), k=1e8).train(), classification((7, 2, 5), 7)
    parts = [{name: tensor[part] for name, tensor in batch.items()} for part in (slice(0, 2), slice(2, 3))]
    whole, (two, one) = model(**batch).kl, [model(**part).kl for part in parts]
    torch.testing.assert_close(whole, (2 * two + one) / 3, rtol=1e-6, atol=0)
    assert not torch.isclose(whole, (two + one) / 2, rtol=1e-3)


def test_the_kl_stays_in_the_loss_at_weight_zero():
    model, batch = hf_bam.patch(bert(), kl_weight=0.0).train(), classification()
    out = model(**batch)
    out.loss.backward()
    assert torch.equal(out.loss, out.task_loss)
    assert all(p.grad is not None and not p.grad.any() for name, p in model.named_parameters() if ".bam." in name)


def test_decoder_inputs_without_labels_or_a_mask_tell_their_padding():
    """Trainer takes the labels away when it smooths them."""
    model, batch = hf_bam.patch(marian().double(), k=1e8).train(), translation()
    labels = batch.pop("labels")
    lengths = (labels != -100).sum(dim=1)
    labels[torch.arange(len(labels)), lengths - 1] = model.config.eos_token_id
    with_labels = model(**batch, labels=labels).kl
    ids = model.prepare_decoder_input_ids_from_labels(labels)
    torch.testing.assert_close(model(**batch, decoder_input_ids=ids).kl, with_labels, rtol=1e-6, atol=0)


def test_positional_arguments_are_understood():
    model, batch = hf_bam.patch(bert(), k=1e8).double().train(), classification()
    by_name = model(**batch).kl
    torch.testing.assert_close(model(batch["input_ids"], batch["attention_mask"]).kl, by_name, rtol=1e-6, atol=0)
    assert not torch.isclose(model(batch["input_ids"]).kl, by_name, rtol=1e-4)


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("name", ["bert", "bert-decoder", "bert2bert", "marian"])
def test_gradient_checkpointing_gives_the_same_gradients(name, noise):
    architecture = PROMISED[name]
    model, batch = hf_bam.patch(architecture.build(), k=1.0, noise=noise, kl_weight=1.0).train(), architecture.batch()
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        out = model(**batch)
        out.loss.backward()
        results.append((out.kl, gradients(model)))
        model.zero_grad()
        model.gradient_checkpointing_enable()
    (kl, plain), (kl_again, checkpointed) = results
    assert torch.equal(kl, kl_again)
    assert plain.keys() == checkpointed.keys()
    for parameter, gradient in plain.items():
        torch.testing.assert_close(checkpointed[parameter], gradient, rtol=1e-4, atol=1e-6)


def test_two_forwards_before_one_backward_under_checkpointing():
    """Each layer is run again with what was known in its own forward."""
    model = hf_bam.patch(marian(), k=1.0, noise="key", kl_weight=1.0).train()
    batches, results = [translation((7, 5), 7), translation((3, 6), 6)], []
    for _ in range(2):
        torch.manual_seed(3)
        sum(model(**batch).loss for batch in batches).backward()
        results.append(gradients(model))
        model.zero_grad()
        model.gradient_checkpointing_enable()
    for name, gradient in results[0].items():
        torch.testing.assert_close(results[1][name], gradient, rtol=1e-4, atol=1e-6)


def test_unpatching_and_patching_again_under_checkpointing():
    model, batch = hf_bam.patch(marian(), noise="key").train(), translation()
    model.gradient_checkpointing_enable()
    model(**batch).loss.backward()
    hf_bam.patch(hf_bam.unpatch(model), noise="key").train()
    model(**batch).loss.backward()
    assert hf_bam.unpatch(model)(**batch).loss.requires_grad


def test_reentrant_checkpointing_is_an_error():
    model = hf_bam.patch(bert()).train()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match="use_reentrant=True loses the gradient of the KL"):
        model(**classification())


def test_key_noise_in_a_layer_without_its_model_is_an_error():
    model = hf_bam.patch(bert(), noise="key").train()
    with pytest.raises(RuntimeError, match="only the forward of the transformers model knows"):
        model.bert.encoder.layer[0](torch.randn(1, 4, 32))
