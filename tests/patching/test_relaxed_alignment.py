"""Gumbel-softmax and Dirichlet alignments in whole models."""

import pytest
import torch
from torch import distributions

import hf_bam
from hf_bam.families.dirichlet import SMALLEST

from ..models import ARCHITECTURES, marian, translation
from .forced import BUILDERS, Oracle
from .test_alignment_modes import gradients, train

pytestmark = pytest.mark.usefixtures("trained_posteriors")

FAMILIES = {
    "gumbel": {"family": "gumbel", "temperature": 0.5, "d_inference": 8},
    "gumbel hard": {"family": "gumbel", "objective": "hard"},
    "dirichlet": {"family": "dirichlet", "d_inference": 8},
    "dirichlet hard": {"family": "dirichlet", "objective": "hard", "concentration": 3.0},
}


@pytest.fixture(params=BUILDERS)
def name(request):
    return request.param


@pytest.fixture(params=FAMILIES)
def settings(request):
    return FAMILIES[request.param]


def test_mean_mode_is_the_plain_model(name, settings):
    model, batch = BUILDERS[name]().eval(), translation()
    plain = model(**batch)
    found = hf_bam.patch(model, **settings).eval()(**batch)
    torch.testing.assert_close(found.logits, plain.logits, rtol=0, atol=0)
    torch.testing.assert_close(found.loss, plain.loss, rtol=0, atol=0)


def test_every_parameter_that_the_plain_model_trains_gets_a_gradient(name, settings):
    model, batch = BUILDERS[name](), translation()
    _, plain = train(model.train(), batch)
    out, found = train(hf_bam.patch(model, **settings), batch)
    networks = {n for n, _ in model.named_parameters() if ".bam." in n}
    assert found.keys() == plain.keys() | networks
    assert bool(networks) == (settings.get("objective") != "hard")
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    assert bool(out.kl > 0) == bool(networks)
    torch.testing.assert_close(out.loss, out.task_loss + out.kl)


def test_the_kl_of_a_batch_is_that_of_torch(name):
    model, batch = BUILDERS[name]().double(), translation()
    kept = batch["labels"] != -100
    for family, settings in (("gumbel", {}), ("dirichlet", {"concentration": 3.0})):
        hf_bam.patch(model, family=family, d_inference=8, **settings).train()
        found = model(**batch).kl
        both = hf_bam.alignments(model, batch, batch["labels"])
        expected = []
        for example, length in enumerate((7, 5, 3)):
            p, q = (x[example, kept[example], :length] for x in (both.p, both.q))
            if family == "dirichlet":
                own, other = (distributions.Dirichlet(3.0 * x + SMALLEST) for x in (q, p))
            else:
                own, other = (distributions.Categorical(probs=x) for x in (q, p))
            expected.append(distributions.kl_divergence(own, other))
        torch.testing.assert_close(found, torch.cat(expected).mean())


def test_a_low_temperature_gives_the_likelihood_of_single_positions():
    """Of one target token, against the plain model run with each position."""
    model, batch = marian(init_std=0.5).double(), translation((4,), 4)
    oracle = Oracle.of("marian", model)
    with torch.no_grad():
        length = batch["labels"].shape[1]
        single = {round(oracle.run(batch, (i,) * length).log_f[0, 0].item(), 6) for i in range(4)}
        hf_bam.patch(model, family="gumbel", objective="hard", temperature=1e-4).train()
        first = {n: x[:, :1] if n == "labels" else x for n, x in batch.items()}
        found = {round(-model(**first).loss.item(), 6) for _ in range(40)}
    assert len(found) > 1
    assert found <= single


def test_gradient_checkpointing_gives_the_same_gradients(name, settings):
    model, batch = hf_bam.patch(BUILDERS[name](), **settings).train(), translation()
    if not model.supports_gradient_checkpointing:
        pytest.skip("a recurrent model has no gradient checkpointing")
    out, plain = train(model, batch)
    model.gradient_checkpointing_enable()
    again, checkpointed = train(model, batch)
    torch.testing.assert_close(again.loss, out.loss)
    for parameter, gradient in plain.items():
        torch.testing.assert_close(checkpointed[parameter], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("whole", [False, True], ids=["autocast", "bfloat16 weights"])
def test_half_precision(name, settings, whole):
    model, batch = BUILDERS[name](), translation()
    hf_bam.patch(model.bfloat16() if whole else model, **settings).train()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not whole):
        out, found = train(model, batch)
    assert torch.isfinite(out.loss)
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


def test_samples_follow_the_seed_and_have_one_row_for_all_heads(name, settings):
    model, batch = hf_bam.patch(BUILDERS[name](), **settings).eval(), translation()
    found = []
    for seed in (1, 1, 2):
        with torch.no_grad(), hf_bam.sampling(model, seed=seed):
            found.append(model(**batch, output_attentions=True))
    assert torch.equal(found[0].logits, found[1].logits)
    assert not torch.equal(found[0].logits, found[2].logits)
    weights = found[0].cross_attentions[-1]
    assert torch.equal(weights, weights[:, :1].expand_as(weights))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
    assert (weights[2, ..., 3:] == 0).all()


def test_samples_do_not_depend_on_the_padding(settings):
    model, batch = hf_bam.patch(marian(init_std=0.5), **settings).eval(), translation((5, 5), 5)
    inputs = {n: x for n, x in batch.items() if n != "labels"}
    ids = torch.tensor([[1, 7, 9], [1, 4, 8]])
    wide = {"input_ids": torch.nn.functional.pad(inputs["input_ids"], (0, 3), value=1)}
    wide["attention_mask"] = torch.nn.functional.pad(inputs["attention_mask"], (0, 3))
    logits = []
    for given in (inputs, wide):
        with torch.no_grad(), hf_bam.sampling(model, seed=4):
            logits.append(model(**given, decoder_input_ids=ids).logits)
    torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)


def test_the_expectation_of_a_gumbel_family_is_that_of_the_categorical_one(name):
    model, batch = BUILDERS[name]().eval(), translation()
    logits = [
        hf_bam.patch(model, family=family, objective="hard", test_time="expectation").eval()(**batch).logits
        for family in ("categorical", "gumbel")
    ]
    torch.testing.assert_close(*logits)


def test_several_layers_and_models_whose_alignments_cannot_be_enumerated(settings):
    batch = translation()
    out, _ = train(hf_bam.patch(marian(), **settings, layers=2).train(), batch)
    alone = [hf_bam.patch(marian(), **settings, layers=[i]).train()(**batch) for i in range(2)]
    assert torch.isfinite(out.loss)
    assert len([n for n, _ in hf_bam.patch(marian(), **settings).named_parameters() if "bilinear" in n]) in (0, 1)
    assert all(torch.isfinite(own.loss) for own in alone)
    whisper = hf_bam.patch(ARCHITECTURES["whisper"].build(), **settings).train()
    train(whisper, ARCHITECTURES["whisper"].batch())
    assert gradients(whisper)


def test_the_kl_of_several_layers_is_their_sum():
    model, batch = marian(init_std=0.5).double(), translation()
    hf_bam.patch(model, family="gumbel", d_inference=8, layers=2, temperature=1e6).train()
    together = model(**batch).kl
    networks = {n: m.bam for n, m in model.named_modules() if hasattr(m, "bam") and any(m.bam.uses)}
    assert len(networks) == 2
    parts = []
    for term in networks.values():
        term.uses, before = (False,), term.uses
        parts.append(model(**batch).kl)
        term.uses = before
    assert together > max(parts)
