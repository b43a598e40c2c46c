"""Latent alignments in training and evaluation: checkpointing, precision, padding and errors."""

import copy

import pytest
import torch
from torch.nn.functional import pad

import hf_bam

from ..models import PAD, marian, translation
from .forced import BUILDERS

pytestmark = pytest.mark.usefixtures("trained_posteriors")

OBJECTIVES = {
    "marginal": {"objective": "marginal"},
    "top k": {"objective": "marginal", "top_k": 2},
    "hard": {"objective": "hard"},
    "variational": {"objective": "variational", "d_inference": 8},
    "score": {"objective": "variational", "estimator": "score", "d_inference": 8},
}


@pytest.fixture(params=BUILDERS)
def name(request):
    return request.param


@pytest.fixture(params=OBJECTIVES)
def settings(request):
    return {"family": "categorical", **OBJECTIVES[request.param]}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def train(model, batch, seed=3):
    """Return the loss and gradients of one forward and backward pass."""
    model.zero_grad()
    torch.manual_seed(seed)
    out = model(**batch)
    out.loss.backward()
    return out, gradients(model)


def test_every_parameter_that_the_plain_model_trains_gets_a_gradient(name, settings):
    model, batch = BUILDERS[name](), translation()
    _, plain = train(model.train(), batch)
    out, found = train(hf_bam.patch(model, **settings), batch)
    networks = {n for n, _ in model.named_parameters() if ".bam." in n}
    assert found.keys() == plain.keys() | networks
    assert bool(networks) == (settings["objective"] == "variational")
    assert all(found[n].any() for n in networks if "bias" not in n)
    assert torch.isfinite(out.loss)
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


def test_gradient_checkpointing_gives_the_same_gradients(name, settings):
    model, batch = hf_bam.patch(BUILDERS[name](), **settings).train(), translation()
    if not model.supports_gradient_checkpointing:
        pytest.skip("a recurrent model has no gradient checkpointing")
    out, plain = train(model, batch)
    model.gradient_checkpointing_enable()
    again, checkpointed = train(model, batch)
    torch.testing.assert_close(again.loss, out.loss)
    assert plain.keys() == checkpointed.keys()
    for parameter, gradient in plain.items():
        torch.testing.assert_close(checkpointed[parameter], gradient, rtol=1e-4, atol=1e-6)


def test_two_forwards_before_one_backward_under_checkpointing(settings):
    model, batches = hf_bam.patch(marian(), **settings).train(), [translation((7, 5), 7), translation((3, 6), 6)]
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        model.zero_grad()
        sum(model(**batch).loss for batch in batches).backward()
        results.append(gradients(model))
        model.gradient_checkpointing_enable()
    for parameter, gradient in results[0].items():
        torch.testing.assert_close(results[1][parameter], gradient, rtol=1e-4, atol=1e-6)


def test_further_padding_changes_nothing(name, settings):
    if "estimator" in settings:
        return  # a sample
    model, batch = hf_bam.patch(BUILDERS[name]().double(), **settings).train(), translation()
    fill = {"input_ids": PAD, "attention_mask": 0, "labels": -100}
    wide = {n: pad(x, (0, 4), value=fill[n]) for n, x in batch.items()}
    (one, first), (other, second) = train(model, batch), train(model, wide)
    torch.testing.assert_close(one.loss, other.loss)
    torch.testing.assert_close(one.kl, other.kl)
    for parameter, gradient in first.items():
        if "embed_positions" not in parameter and "position_embeddings" not in parameter:
            torch.testing.assert_close(second[parameter], gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("whole", [False, True], ids=["autocast", "bfloat16 weights"])
def test_half_precision(name, settings, whole):
    model, batch = BUILDERS[name](), translation()
    if "estimator" in settings:
        return  # another sample
    exact = hf_bam.patch(copy.deepcopy(model), **settings).train()
    torch.manual_seed(0)
    hf_bam.patch(model.bfloat16() if whole else model, **settings).train()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not whole):
        out, found = train(model, batch)
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    torch.testing.assert_close(out.task_loss.float(), exact(**batch).task_loss, rtol=0.1, atol=0.1)
    assert out.loss.dtype == torch.float32


def test_dropout_and_attention_dropout(settings):
    model = hf_bam.patch(marian(dropout=0.3, attention_dropout=0.5), **settings).train()
    out, found = train(model, translation())
    assert torch.isfinite(out.loss)
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


@pytest.mark.parametrize("training", [True, False])
def test_outputs_are_those_of_the_model(name, training):
    model, batch = BUILDERS[name]().eval(), translation()
    plain = model(**batch, output_hidden_states=True)
    hf_bam.patch(model, family="categorical", test_time="expectation").train(training)
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    assert out.logits.shape == plain.logits.shape
    assert [x.shape for x in out.decoder_hidden_states] == [x.shape for x in plain.decoder_hidden_states]
    assert out.cross_attentions[-1].shape == (3, 4, 6, 7)
    assert {*plain} <= {*out}
    loss, logits, *_ = model(**batch, return_dict=False)
    torch.testing.assert_close(loss, out.loss)
    torch.testing.assert_close(logits, out.logits, atol=1e-3, rtol=1e-4)  # weights were not asked for
    by_position = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"])
    torch.testing.assert_close(by_position.loss, out.loss)


def test_marginal_training_from_logits():
    """Trainer takes the labels away when it smooths them."""
    model, batch = hf_bam.patch(marian(init_std=0.5).double(), family="categorical").train(), translation()
    out, expected = train(model, batch)
    labels = batch.pop("labels")
    model.zero_grad()
    found = model(**batch, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels))
    loss = torch.nn.functional.cross_entropy(found.logits.flatten(0, 1), labels.flatten())
    loss.backward()
    torch.testing.assert_close(loss, out.loss)
    torch.testing.assert_close(found.logits, out.logits)
    for parameter, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[parameter])


def test_other_objectives_need_labels(settings):
    model, batch = hf_bam.patch(marian(), **settings).train(), translation()
    ids = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    if settings["objective"] == "marginal":
        assert model(**batch, decoder_input_ids=ids).logits.requires_grad
        return
    with pytest.raises(ValueError, match=r"is trained from labels, and this forward has none.*label_smoothing_factor"):
        model(**batch, decoder_input_ids=ids)


def test_a_part_of_the_model_cannot_be_trained():
    model, batch = hf_bam.patch(marian(), family="categorical").train(), translation()
    ids = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    with pytest.raises(RuntimeError, match="trained by the forward of the whole model"):
        model.model(**batch, decoder_input_ids=ids)


def test_samples_follow_the_seed_and_have_one_alignment_for_all_heads(name):
    model, batch = hf_bam.patch(BUILDERS[name](), family="categorical").eval(), translation()
    found = []
    for seed in (1, 1, 2):
        with torch.no_grad(), hf_bam.sampling(model, seed=seed):
            found.append(model(**batch, output_attentions=True))
    assert torch.equal(found[0].logits, found[1].logits)
    assert not torch.equal(found[0].logits, found[2].logits)
    weights = found[0].cross_attentions[-1]  # (B, H, T, S)
    assert torch.equal(weights, weights[:, :1].expand_as(weights))
    assert torch.equal(weights.max(dim=-1).values, torch.ones(weights.shape[:3]))
    assert (weights[2, ..., 3:] == 0).all()
    assert (found[0].cross_attentions[0] < 1).any()


def test_the_mean_over_samples_is_the_expectation():
    model, batch = (
        hf_bam.patch(marian(init_std=0.5), family="categorical", test_time="expectation").eval(),
        translation(),
    )
    with torch.no_grad():
        expected = model(**batch).logits.exp()
        many = {n: x.repeat(2000, 1) for n, x in batch.items()}
        with hf_bam.sampling(model, seed=0):
            samples = model(**many).logits.softmax(dim=-1).view(2000, *expected.shape)
    error = samples.std(dim=0) / 2000**0.5
    z = (samples.mean(dim=0) - expected) / error.clamp(min=1e-6)
    assert z.abs().max() < 6
    assert (z.abs() > 3).float().mean() < 0.01


def test_unpatching_and_changing_the_family():
    model, batch = marian().eval(), translation()
    plain = model(**batch).logits
    hf_bam.patch(model, family="categorical", objective="variational", test_time="expectation")
    module = model.model.decoder.layers[-1].encoder_attn
    assert len(module._forward_hooks) == 1
    network = module.bam.inference
    hf_bam.patch(model, hf_bam.get_config(model), test_time="soft")
    assert module.bam.inference is network
    assert len(module._forward_hooks) == 1
    hf_bam.patch(model, hf_bam.get_config(model), family="weibull")
    assert hf_bam.get_config(model) == hf_bam.BamConfig()
    assert not module._forward_hooks
    assert model.train()(**batch).kl > 0
    hf_bam.patch(model, family="categorical", test_time="expectation")
    hf_bam.unpatch(model)
    assert torch.equal(model.eval()(**batch).logits, plain)
