"""Score-function estimator where alignments cannot be enumerated by hf_bam: the plain model enumerates them."""

import copy
import itertools

import pytest
import torch

import hf_bam

from ..models import bart, marian, t5, translation
from .forced import forced_to
from .test_score_function import gradient, sampled_gradients

pytestmark = pytest.mark.usefixtures("trained_posteriors")

RUNS = 60
SMALL = {"d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8}
PLACES = {
    "two layers": ({"layers": 2}, ["model.decoder.layers.0.encoder_attn", "model.decoder.layers.1.encoder_attn"]),
    "first layer": ({"layers": [0]}, ["model.decoder.layers.0.encoder_attn"]),
}


def expected_loss(model, batch, paths):
    """Return the mean of the loss over the alignments of several modules, by runs of the plain model."""
    oracle = copy.deepcopy(model).eval()
    oracle.set_attn_implementation("forced")
    modules = [oracle.get_submodule(path) for path in paths]
    length, positions = batch["labels"].shape[1], batch["input_ids"].shape[1]
    total = 0.0
    for z in itertools.product(itertools.product(range(positions), repeat=length), repeat=len(paths)):
        alignments = dict(zip(modules, z, strict=True))
        with forced_to(alignments) as soft:
            loss = oracle(**batch).loss
        p = [soft[m].mean(dim=1)[0, torch.arange(length), torch.tensor(own)] for m, own in alignments.items()]
        total = total + torch.stack(p).prod() * loss
    return oracle, total


@pytest.mark.parametrize("place", PLACES)
def test_the_gradient_is_that_of_enumeration(place):
    settings, paths = PLACES[place]
    torch.manual_seed(1)
    model = marian(init_std=0.5, encoder_layers=1, decoder_layers=2, decoder_ffn_dim=8, **SMALL).double()
    batch = translation((3,), 3)
    oracle, loss = expected_loss(model, batch, paths)
    loss.backward()
    exact = gradient(oracle)
    hf_bam.patch(model, family="categorical", objective="hard", estimator="score", **settings).train()
    found = sampled_gradients(model, batch, RUNS)
    error = found.std(dim=0) / RUNS**0.5
    random = error > 1e-12
    z = (found.mean(dim=0) - exact)[random] / error[random]
    torch.testing.assert_close(found.mean(dim=0)[~random], exact[~random])
    assert random.float().mean() > 0.3
    assert z.abs().max() < 6
    assert (z.abs() > 3).float().mean() < 0.015


@pytest.mark.parametrize("build", [marian, bart, t5])
@pytest.mark.parametrize("attention", ["both", "self", "cross"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_places_everywhere(build, attention, checkpointing):
    settings = {"family": "categorical", "estimator": "score", "objective": "hard", "layers": "all"}
    model, batch = hf_bam.patch(build(), **settings, attention=attention).train(), translation()
    plain = model.eval()(**batch).logits
    if checkpointing:
        model.gradient_checkpointing_enable()
    out = model.train()(**batch)
    out.loss.backward()
    assert out.logits.shape == plain.shape
    assert out.loss == out.task_loss
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(model.eval()(**batch).logits, hf_bam.unpatch(model)(**batch).logits, rtol=0, atol=0)


def test_checkpointing_gives_the_same_gradients():
    settings = {"family": "categorical", "estimator": "score", "objective": "variational", "d_inference": 8}
    model, batch = hf_bam.patch(marian(), **settings, layers=2).train(), translation()
    results = []
    for _ in range(2):
        model.zero_grad()
        torch.manual_seed(3)
        model(**batch).loss.backward()
        results.append(gradient(model))
        model.gradient_checkpointing_enable()
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_several_posteriors_have_the_sum_of_their_kls():
    settings = {"family": "categorical", "estimator": "score", "objective": "variational", "d_inference": 8}
    model, batch = hf_bam.patch(marian(), **settings, layers=2).train(), translation()
    out = model(**batch)
    torch.testing.assert_close(out.loss, out.task_loss + out.kl)
    with pytest.raises(ValueError, match=r"2 latent alignments.*layers=1"):
        hf_bam.alignments(model, batch, batch["labels"])
    with pytest.raises(ValueError, match=r"alignments in the encoder.*objective='hard'"):
        hf_bam.patch(marian(), **settings, attention="both")
