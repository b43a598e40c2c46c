"""Latent variable of a whole text in the memory of a decoder, against torch.distributions and the plain model."""

import copy

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import hf_bam
from hf_bam.attention.layer import BamLayer, MemoryLayer

from ..models import ARCHITECTURES, bert, marian, translation

NAMES = ["marian", "bart", "t5", "bert2bert", "recurrent", "recurrent-parallel"]
SETTINGS = {"family": "gaussian", "attention": "cross", "sentence_latent": 5}


def build(name="marian", **changes):
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    plain = architecture.build().eval()
    return hf_bam.patch(copy.deepcopy(plain), **{**SETTINGS, **changes}), plain, architecture.batch()


def memory_of(model):
    return model.get_decoder().bam.memory


def pooled(model, batch):
    """Return the mean of the encoder's states, example by example."""
    states = model.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
    return torch.stack([own[: int(n)].mean(0) for own, n in zip(states, batch["attention_mask"].sum(1), strict=True)])


def gaussian(memory, vectors):
    own = memory.posterior
    return vectors @ own.mean_weight.T + own.mean_bias, (vectors @ own.sigma_weight.T + own.sigma_bias).exp()


@pytest.mark.parametrize("name", NAMES)
def test_mean_mode_is_the_plain_model_with_one_more_position(name):
    model, plain, batch = build(name)
    memory = memory_of(model)
    with torch.no_grad():
        mean, _ = gaussian(memory, pooled(plain, batch))
        state = mean @ memory.output_weight.T + memory.output_bias
        source = plain.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        states = torch.cat([source[0], state[:, None]], dim=1)
        outputs = type(source)(**{**source, "last_hidden_state": states})
        mask = torch.nn.functional.pad(batch["attention_mask"], (0, 1), value=1)
        expected = plain(encoder_outputs=outputs, attention_mask=mask, labels=batch["labels"]).logits
        found = model.eval()(**batch).logits
        without = plain(**batch).logits
    kept = batch["labels"] != -100
    torch.testing.assert_close(found[kept], expected[kept], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found[kept], without[kept], atol=1e-4)


def test_kl_by_torch_and_its_part_in_the_loss():
    model, plain, batch = build(kl_weight=0.5, gamma=0.3)
    mean, sigma = gaussian(memory_of(model), pooled(plain, batch))
    latent = kl_divergence(Normal(mean, sigma), Normal(0.0, 1.0)).sum().item() / int((batch["labels"] != -100).sum())
    torch.manual_seed(1)
    out = model.train()(**batch)
    out.loss.backward()
    logged = model._bam.runtime.meter.pop()
    assert logged["latent_kl"].item() == pytest.approx(latent, rel=1e-5)
    assert out.kl.item() == pytest.approx(logged["kl"].item(), rel=1e-6)
    assert out.loss.item() == pytest.approx((out.task_loss + 0.5 * out.kl).item(), rel=1e-6)
    attention = out.kl.item() - latent
    hf_bam.patch(model, **SETTINGS, kl_weight=0.5, gamma=1.0)
    torch.manual_seed(1)
    assert model(**batch).kl.item() == pytest.approx(latent + attention / 0.3, rel=1e-4)
    memory = memory_of(model)
    assert all(p.grad.abs().sum() > 0 for p in memory.parameters())
    hf_bam.patch(model, **SETTINGS, kl_reduction="sum", prior="none")
    expected = kl_divergence(Normal(mean, sigma), Normal(0.0, 1.0)).sum(1).mean().item()
    assert model(**batch).kl.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_change_a_sample(side):
    model, _, _ = build("t5", initial_sigma=1e-8)  # of relative positions
    batch = translation((7,), 7)
    places = (3, 0) if side == "left" else (0, 3)
    wide = {
        "input_ids": torch.nn.functional.pad(batch["input_ids"], places, value=1),
        "attention_mask": torch.nn.functional.pad(batch["attention_mask"], places),
        "labels": batch["labels"],
    }
    logits = []
    for own in (batch, wide):
        with torch.no_grad(), hf_bam.sampling(model.eval(), seed=1):
            logits.append(model(**own).logits)
    torch.testing.assert_close(logits[0], logits[1], atol=1e-4, rtol=1e-4)
    with torch.no_grad(), hf_bam.sampling(model, seed=2):
        assert not torch.allclose(model(**batch).logits, logits[0], atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_hypothesis_has_one_sample_of_the_latents(name):
    """Generation with a cache, step by step, equals one forward pass over the whole text with the same noise."""
    model, _, batch = build(name, initial_sigma=1.0)
    model.eval()
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model, seed=3, fixed=True):
            made = model.generate(**inputs, max_new_tokens=6, do_sample=False, num_beams=1, use_cache=use_cache)
        texts.append(made)
    assert torch.equal(*texts)
    with torch.no_grad(), hf_bam.sampling(model, seed=3, fixed=True):
        logits = model(**inputs, decoder_input_ids=texts[0][:, :-1]).logits
    end = model.generation_config.eos_token_id or 0
    for row, own in zip(texts[0], logits, strict=True):
        length = next((i for i, token in enumerate(row[1:].tolist()) if token == end), len(row) - 1)
        assert torch.equal(own.argmax(-1)[:length], row[1 : length + 1])


def test_a_sentence_latent_alone():
    """Attention stays deterministic: without the latent, all samples would be equal."""
    model, _, batch = build(initial_sigma=0.0)
    assert not any(any(layer.uses) for layer in model.modules() if isinstance(layer, BamLayer))
    out = model.train()(**batch)
    logged = kl_divergence(
        *(Normal(m, s) for m, s in (gaussian(memory_of(model), pooled(model.eval(), batch)), (0, 1)))
    )
    assert out.kl.item() == pytest.approx(logged.sum().item() / int((batch["labels"] != -100).sum()), rel=1e-5)
    with torch.no_grad(), hf_bam.sampling(model, seed=1):
        assert not torch.allclose(model(**batch).logits, model(**batch).logits)


def test_rows_and_samples_have_latents_of_their_own():
    model, _, _ = build(initial_sigma=1e-8)
    one = translation((7,), 7)
    batch = {name: value.repeat(4, 1) for name, value in one.items()}
    with torch.no_grad(), hf_bam.sampling(model.eval(), seed=1):
        logits = model(**batch).logits
    assert len({tuple(row.flatten().tolist()) for row in logits}) == 4
    with torch.no_grad(), hf_bam.sampling(model, seed=1, fixed=True, groups=2):
        logits = model(**batch).logits
    torch.testing.assert_close(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2])


def test_save_load_patch_again_and_unpatch(tmp_path):
    model, plain, batch = build()
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded.eval()(**batch).logits, model.eval()(**batch).logits)
    kept = memory_of(model)
    hf_bam.patch(model, **SETTINGS, initial_sigma=2.0)
    assert memory_of(model) is kept
    hf_bam.patch(model, **{**SETTINGS, "sentence_latent": 4})
    assert memory_of(model) is not kept
    hf_bam.patch(model, family="gaussian")
    assert not any(isinstance(module, MemoryLayer) for module in model.modules())
    hf_bam.unpatch(hf_bam.patch(model, **SETTINGS))
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, plain(**batch).logits)
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_half_precision_and_checkpointing():
    model, _, batch = build()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with torch.autocast("cpu", torch.bfloat16):
        out = model.train()(**batch)
    out.loss.backward()
    assert all(p.grad.isfinite().all() for p in memory_of(model).parameters())


def test_models_without_a_decoder_are_an_error():
    model = bert()
    with pytest.raises(hf_bam.UnsupportedModelError, match="it needs an encoder-decoder model"):
        hf_bam.patch(model, family="gaussian", sentence_latent=4)
    assert not hf_bam.is_patched(model)
    assert hf_bam.is_patched(hf_bam.patch(marian(), family="gaussian", sentence_latent=4))
