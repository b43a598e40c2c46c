"""Bayesian attention in the recurrent model, whose attention runs step by step."""

import copy

import pytest
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

import hf_bam
from hf_bam.patching.discovery import find_sites

from .cases import LENGTHS, PAD, batch, build, source

FAMILIES = {"weibull": {"k": 1.0}, "lognormal": {"family": "lognormal", "sigma": 1.0}}


def test_it_has_one_cross_attention_of_the_decoder():
    (site,) = find_sites(build(num_attention_heads=3))
    assert (site.path, site.cross, site.decoder, site.head_dim) == ("model.decoder.cross_attn", True, True, 4)


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_mean_mode_equals_the_plain_model(feeding, implementation):
    model, inputs = build(input_feeding=feeding), batch()
    model.set_attn_implementation(implementation)
    expected = model(**inputs, output_attentions=True)
    hf_bam.patch(model)
    for options in ({}, {"output_attentions": True}):
        torch.testing.assert_close(model(**inputs, **options).logits, expected.logits)
    actual = model(**inputs, output_attentions=True).cross_attentions[0]
    torch.testing.assert_close(actual, expected.cross_attentions[0])


def step_by_step(model, inputs):
    """Run a model without input feeding step by step: a mask with padding makes it do so."""
    return model(**inputs, decoder_attention_mask=(inputs["labels"] != -100).long())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", ["contextual", "fixed"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_kl_is_the_same_step_by_step(family, prior, reduction):
    """Without input feeding the mean attention does not depend on the samples, so one call for all steps is exact."""
    settings = {**FAMILIES[family], "prior": prior, "kl_reduction": reduction}
    model, inputs = hf_bam.patch(build(input_feeding=False, num_attention_heads=2), **settings).train(), batch()
    whole, steps = model(**inputs), step_by_step(model, inputs)
    torch.testing.assert_close(steps.kl, whole.kl)
    gradients = [
        torch.autograd.grad(out.kl, model.get_decoder().cross_attn.k_proj.weight)[0] for out in (whole, steps)
    ]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().max() > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_sample_is_the_same_step_by_step(family, noise, fixed):
    model, inputs = build(input_feeding=False, num_attention_heads=2), batch()
    hf_bam.patch(model, **FAMILIES[family], noise=noise)
    kept = inputs["labels"] != -100
    with torch.no_grad():
        mean = model(**inputs).logits[kept]
        with hf_bam.sampling(model, seed=3, fixed=fixed):
            whole = model(**inputs).logits[kept]
        with hf_bam.sampling(model, seed=3, fixed=fixed):
            matrix = model(**inputs, output_attentions=True).logits[kept]
        with hf_bam.sampling(model, seed=3, fixed=fixed):
            steps = step_by_step(model, inputs).logits[kept]
    torch.testing.assert_close(steps, whole)
    torch.testing.assert_close(matrix, whole)
    assert (whole - mean).abs().max() > 1e-3


@pytest.mark.parametrize("noise", ["key", "token"])
def test_noise_that_queries_share_is_one_value_for_all_steps(noise):
    """In training too, where it has no KL; with equal queries all steps have the same weights."""
    model = hf_bam.patch(build(num_attention_heads=2), noise=noise, prior="none", k=1.0).train()
    model.get_decoder().cross_attn.q_proj.weight.data.zero_()
    weights = model(**batch(), output_attentions=True).cross_attentions[0]  # (B, H, T, S)
    assert torch.equal(weights, weights[:, :, :1].expand_as(weights))
    assert torch.equal(weights[:, 0], weights[:, 1]) == (noise == "token")
    hf_bam.patch(model, noise="entry")
    weights = model(**batch(), output_attentions=True).cross_attentions[0]
    assert not torch.equal(weights[:, :, 0], weights[:, :, 1])


@pytest.mark.parametrize("noise", ["key", "token"])
def test_its_kl_is_an_error_step_by_step(noise):
    model, inputs = hf_bam.patch(build(), noise=noise).train(), batch()
    with pytest.raises(NotImplementedError, match=r"step by step. Use noise='entry' or prior='none', or a model"):
        model(**inputs)
    model = hf_bam.patch(build(input_feeding=False), noise=noise).train()
    assert model(**inputs).kl > 0


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("scheduled", [0.0, 0.5])
def test_padding_does_not_change_the_kl(feeding, scheduled):
    """The examples of a batch one by one, without padding, and with the global generator set for each of them."""
    model = build(input_feeding=feeding, scheduled_sampling=scheduled, feedback="argmax", dropout=0.0)
    hf_bam.patch(model, k=1e7).train()  # practically no noise, so that every mean attention is that of the plain model
    inputs = batch()
    if scheduled:
        model.config.scheduled_sampling = 1.0
    with torch.no_grad():
        whole = model(**inputs).kl
        alone = []
        for row, length in enumerate(LENGTHS):
            own = {name: value[row : row + 1] for name, value in inputs.items()}
            own = {name: own[name][:, : length + (name == "labels")] for name in own}
            alone.append(model(**own).kl)
    torch.testing.assert_close(whole, torch.stack(alone).mean(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_fixed_noise_within_generate(feeding, beams):
    torch.manual_seed(1)
    model, inputs = hf_bam.patch(build(input_feeding=feeding, initializer_factor=3.0), k=1.0), source()
    asked = {"num_beams": beams, "output_scores": True, "return_dict_in_generate": True, "do_sample": False}
    outputs = []
    for seed, use_cache in ((4, True), (4, False), (5, True)):
        with hf_bam.sampling(model, seed=seed, fixed=True, groups=3):
            options = {"max_new_tokens": 8, "min_new_tokens": 8, "pad_token_id": PAD, "use_cache": use_cache}
            outputs.append(model.generate(**inputs, **asked, **options))
    cached, uncached, other = outputs
    assert torch.equal(cached.sequences, uncached.sequences)
    torch.testing.assert_close(cached.scores, uncached.scores)
    assert not torch.allclose(torch.stack(cached.scores), torch.stack(other.scores), atol=1e-2)


def test_an_unpatched_model_is_as_before():
    model, inputs = build(), batch()
    expected = model(**inputs).logits
    hf_bam.unpatch(hf_bam.patch(model))
    assert torch.equal(model(**inputs).logits, expected)
    assert type(model.train()(**inputs)).__name__ == "Seq2SeqLMOutput"


@pytest.mark.parametrize("patched", [True, False])
def test_the_trainer(tmp_path, patched):
    model = build(hidden_size=24, dropout=0.1).float()
    if patched:
        hf_bam.patch(model)
    inputs = batch((5,) * 8)
    rows = [dict(zip(inputs, values, strict=True)) for values in zip(*inputs.values(), strict=True)]
    arguments = Seq2SeqTrainingArguments(
        tmp_path,
        max_steps=30,
        learning_rate=2e-2,
        logging_steps=10,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        predict_with_generate=True,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    before = copy.deepcopy(model).eval()(**inputs).loss.item()
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert all(("kl" in entry) == patched for entry in logged)
    assert trainer.evaluate()["eval_loss"] < before / 2
    predicted = trainer.predict(rows, max_new_tokens=6).predictions
    assert predicted.shape[0] == 8
    assert (predicted[:, 1:4] == inputs["labels"][:, :3].numpy()).mean() > 0.3


@pytest.mark.parametrize("mode", ["autocast", "pure"])
@pytest.mark.parametrize("feeding", [True, False])
def test_bfloat16(mode, feeding):
    """The LSTM of torch has no float16 on most CPUs."""
    model, inputs = build(input_feeding=feeding, hidden_size=32).float(), batch()
    hf_bam.patch(model, k=1e6).train()
    reference = model(**inputs)
    if mode == "pure":
        model.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
        out = model(**inputs)
    out.loss.backward()
    torch.testing.assert_close(out.kl, reference.kl, rtol=0.05, atol=0.01)
    torch.testing.assert_close(out.task_loss.float(), reference.task_loss, rtol=0.05, atol=0.05)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
        assert model.generate(**source(), max_new_tokens=4, num_beams=2).shape[0] == 3
