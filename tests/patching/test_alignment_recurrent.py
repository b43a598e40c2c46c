"""Latent alignments of a recurrent model that feeds its context back, against its equations written out."""

import copy

import pytest
import torch

import hf_bam

from ..models import PAD, recurrent, translation

pytestmark = pytest.mark.usefixtures("trained_posteriors")

LENGTHS = (5, 3)


def build():
    return recurrent(initializer_range=0.5, num_attention_heads=2).double().eval()


def written_out(model, batch):
    """Return soft attention (B, T, S), and log-likelihoods (B, T, S) of the target for every position.

    Soft attention is fed back; the prediction alone reads the context of one position.
    """
    inputs = []
    decoder = model.get_decoder()
    handle = decoder.readout.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    out = model(**batch, output_attentions=True)
    handle.remove()
    states = inputs[-1][..., : model.config.hidden_size]
    _, values = decoder.cross_attn.project(out.encoder_last_hidden_state)
    values = values.transpose(1, 2).flatten(2)  # (B, S, D)
    log_f = []
    for position in range(values.shape[1]):
        context = values[:, position : position + 1].expand_as(states)
        logits = model.lm_head(torch.tanh(decoder.readout(torch.cat([states, context], dim=-1))))
        log_f.append(logits.log_softmax(dim=-1).gather(-1, batch["labels"].clamp(min=0)[..., None])[..., 0])
    return out.cross_attentions[0].mean(dim=1), torch.stack(log_f, dim=-1)


def loss_of(values, labels):
    kept = labels != -100
    return -values[kept].sum() / kept.sum()


def gradients(model):
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None and ".bam." not in n}


@pytest.mark.parametrize("objective", ["marginal", "hard", "variational"])
def test_objectives_are_sums_over_all_positions(objective):
    model, batch = build(), translation(LENGTHS, 5)
    plain = copy.deepcopy(model)
    p, log_f = written_out(plain, batch)
    hf_bam.patch(model, family="categorical", objective=objective, d_inference=8).train()
    out = model(**batch)
    out.loss.backward()
    if objective == "variational":
        q = hf_bam.alignments(model, batch, batch["labels"]).q
        log_q = q.clamp(min=1e-300).log()
        kl = (q * (log_q - p.clamp(min=1e-300).log())).sum(dim=-1)
        torch.testing.assert_close(out.loss, loss_of((q * log_f).sum(dim=-1) - kl, batch["labels"]))
        torch.testing.assert_close(out.kl, -loss_of(kl, batch["labels"]))
        return
    values = (p * log_f.exp()).sum(dim=-1).log() if objective == "marginal" else (p * log_f).sum(dim=-1)
    expected = loss_of(values, batch["labels"])
    expected.backward()
    torch.testing.assert_close(out.loss, expected)
    for name, gradient in gradients(plain).items():
        torch.testing.assert_close(gradients(model)[name], gradient, msg=lambda text, n=name: f"{n}: {text}")


def test_the_k_best_and_the_score_function_run_step_by_step():
    model, batch = build(), translation(LENGTHS, 5)
    exact = hf_bam.patch(model, family="categorical").train()(**batch).loss
    torch.testing.assert_close(hf_bam.patch(model, family="categorical", top_k=5)(**batch).loss, exact)
    assert not torch.isclose(hf_bam.patch(model, family="categorical", top_k=2)(**batch).loss, exact, rtol=1e-6)
    hf_bam.patch(model, family="categorical", objective="variational", estimator="score", d_inference=8)
    model(**batch).loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}], ids=str)
def test_generation_with_and_without_a_cache(options):
    model = hf_bam.patch(build(), family="categorical", test_time="expectation").eval()
    inputs = {n: x for n, x in translation(LENGTHS, 5).items() if n != "labels"}
    options = {"max_new_tokens": 6, "pad_token_id": PAD, **options}
    ids = model.generate(**inputs, **options)
    assert torch.equal(ids, model.generate(**inputs, **options, use_cache=False))
    if "num_beams" not in options:
        text = (ids[:, 1:] != PAD).cumprod(dim=1).bool()
        logits = model(**inputs, decoder_input_ids=ids).logits[:, :-1]
        assert torch.equal(logits.argmax(dim=-1)[text], ids[:, 1:][text])


@pytest.mark.parametrize("family", ["categorical", "gumbel", "dirichlet"])
def test_fixed_noise_within_generate(family):
    model = hf_bam.patch(build(), family=family).eval()
    inputs = {n: x for n, x in translation(LENGTHS, 5).items() if n != "labels"}
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model, seed=0, fixed=True, groups=2):
            texts.append(model.generate(**inputs, max_new_tokens=8, num_beams=2, use_cache=use_cache))
    assert torch.equal(*texts)


def test_the_mean_over_samples_is_the_expectation():
    model, batch = hf_bam.patch(build(), family="categorical", test_time="expectation").eval(), translation(LENGTHS, 5)
    with torch.no_grad():
        expected = model(**batch).logits.exp()
        many = {n: x.repeat(2000, 1) for n, x in batch.items()}
        with hf_bam.sampling(model, seed=0):
            out = model(**many)
        samples = out.logits.softmax(dim=-1).view(2000, *expected.shape)
    z = (samples.mean(dim=0) - expected) / (samples.std(dim=0) / 2000**0.5).clamp(min=1e-6)
    assert z.abs().max() < 6
    assert out.loss.dim() == 0


def test_scheduled_sampling_is_for_relaxed_alignments():
    model, batch = recurrent(scheduled_sampling=0.5).train(), translation()
    hf_bam.patch(model, family="categorical")
    with pytest.raises(ValueError, match=r"scheduled_sampling=0.5 feeds predictions back.*'gumbel'"):
        model(**batch)
    for family in ("gumbel", "dirichlet"):
        assert torch.isfinite(hf_bam.patch(model, family=family)(**batch).loss)
