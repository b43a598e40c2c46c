"""Codes of encoder states, against brute force, scikit-learn's k-means and the plain model."""

import copy
import logging

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

import hf_bam
from hf_bam.families import Codebook, QuantizedFamily
from hf_bam.families.codebook import perplexity
from hf_bam.patching.memory import make_call

from ..models import ARCHITECTURES, bert
from ..processes import launch
from . import codebook_program

NAMES = ["marian", "bart", "t5", "bert2bert", "recurrent", "recurrent-parallel"]


def build(name="marian", **changes):
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    plain = architecture.build(**({"initial_state": "zero"} if "recurrent" in name else {})).eval()
    settings = {"family": "quantized", "num_codes": 8, **changes}
    return hf_bam.patch(copy.deepcopy(plain), **settings), plain, architecture.batch()


def book_of(model):
    return model.get_decoder().bam.memory


def states_of(model, batch):
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        return model.get_encoder()(**inputs)[0]


def ready(codes, decay=0.0, revive_below=0.0):
    """Return a codebook that holds these codes."""
    book = Codebook(codes.shape[1], len(codes), decay, revive_below)
    book.codes.copy_(codes)
    book.counts.fill_(1.0)
    book.sums.copy_(codes)
    book.updates.fill_(1)
    return book


def test_nearest_codes_by_brute_force():
    torch.manual_seed(0)
    book, states = ready(torch.randn(50, 6)), torch.randn(4, 9, 6)
    expected = cdist(states.reshape(-1, 6), book.codes).argmin(1).reshape(4, 9)
    assert np.array_equal(book.nearest(states).numpy(), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert np.array_equal(book.nearest(states).numpy(), expected)


def test_an_update_without_memory_is_a_step_of_k_means():
    torch.manual_seed(0)
    states = torch.randn(40, 5, 3)
    mask = torch.ones(40, 5, dtype=torch.bool)
    mask[:10, 3:] = False
    own = states[mask].double().numpy()
    first = own[:6]
    book = ready(torch.tensor(first, dtype=torch.float32))
    book.update(states, mask, book.nearest(states))
    one = KMeans(6, init=first, n_init=1, max_iter=1, tol=0.0).fit(own)
    np.testing.assert_allclose(book.codes.numpy(), one.cluster_centers_, atol=1e-5)
    for _ in range(60):
        book.update(states, mask, book.nearest(states))
    fitted = KMeans(6, init=first, n_init=1, max_iter=61, tol=0.0, algorithm="lloyd").fit(own)
    np.testing.assert_allclose(book.codes.numpy(), fitted.cluster_centers_, atol=1e-4)


def test_moving_averages():
    """Codes are means of states with geometric weights, by a loop over the batches."""
    torch.manual_seed(0)
    start = torch.tensor([[-3.0], [3.0]])
    book, count, total = ready(start, decay=0.9), np.ones(2), start[:, 0].numpy().astype(float)
    mask = torch.ones(7, 1, dtype=torch.bool)
    for _ in range(5):
        states = torch.randn(7, 1, 1) * 3
        index = book.nearest(states)
        for k in range(2):
            own = states[index == k].numpy()
            count[k] = 0.9 * count[k] + 0.1 * len(own)
            total[k] = 0.9 * total[k] + 0.1 * own.sum()
        book.update(states, mask, index)
        np.testing.assert_allclose(book.codes[:, 0].numpy(), total / count, rtol=1e-5)


def test_dead_codes_are_moved_to_states_and_live_ones_stay():
    torch.manual_seed(0)
    book = ready(torch.tensor([[0.0, 0.0], [99.0, 99.0]]), decay=0.5, revive_below=0.1)
    states, mask = torch.randn(6, 4, 2), torch.ones(6, 4, dtype=torch.bool)
    for _ in range(8):
        book.update(states, mask, book.nearest(states))
    assert book.codes.abs().max() < 5
    assert len(set(book.nearest(states).flatten().tolist())) == 2
    alone = ready(torch.tensor([[0.0, 0.0], [99.0, 99.0]]), decay=0.5)
    for _ in range(8):
        alone.update(states, mask, alone.nearest(states))
    assert alone.codes[1].tolist() == [99.0, 99.0]


def test_the_first_batch_gives_the_codes():
    model, _, batch = build(num_codes=5)
    model.train()(**batch)
    model.eval()
    states = states_of(model, batch)[batch["attention_mask"].bool()]
    assert book_of(model).updates.item() == 1
    assert cdist(states, book_of(model).codes).argmin(1).max() <= 4
    assert torch.isfinite(book_of(model).codes).all()


def test_perplexity():
    assert perplexity(torch.ones(7)).item() == pytest.approx(7)
    assert perplexity(torch.tensor([5.0, 0.0])).item() == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES)
def test_a_codebook_with_all_states_is_the_plain_model(name):
    model, plain, batch = build(name, num_codes=21)
    states = states_of(plain, batch)
    book_of(model).codes.copy_(states.reshape(21, -1))
    with torch.no_grad():
        expected, found = plain(**batch).logits, model.eval()(**batch).logits
        kept = batch["labels"] != -100
        torch.testing.assert_close(found[kept], expected[kept], atol=1e-5, rtol=1e-4)
        book_of(model).codes.normal_()
        assert not torch.allclose(model(**batch).logits[kept], expected[kept], atol=1e-4)


@pytest.mark.parametrize("name", ["marian", "recurrent"])
def test_the_decoder_reads_codes_and_nothing_else(name):
    """Two sources with the same codes give the same logits: those of the plain model for the codes themselves."""
    model, plain, batch = build(name, num_codes=2)
    book = book_of(model)
    book.codes[1] = book.codes[0]
    outputs = plain.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    codes = book.codes[0].expand(outputs[0].shape)
    source = type(outputs)(last_hidden_state=codes)
    with torch.no_grad():
        expected = plain(encoder_outputs=source, attention_mask=batch["attention_mask"], labels=batch["labels"])
        torch.testing.assert_close(model.eval()(**batch).logits, expected.logits, atol=1e-5, rtol=1e-4)


def test_the_straight_through_gradient_is_the_identity():
    model, _, batch = build(commitment=0.0, commitment_start=0.0)
    layer, states = model.get_decoder().bam, torch.randn(3, 7, 32, requires_grad=True)
    mask = batch["attention_mask"].bool()
    found, _ = layer.train().memory(states, mask, make_call(layer, states, mask))
    direction = torch.randn_like(found)
    found.mul(direction).sum().backward()
    assert torch.equal(states.grad, direction)
    codes = layer.memory.codes
    assert cdist(found.detach().reshape(-1, 32), codes).min(1).max() > 0  # codes moved after they were read


@pytest.mark.parametrize(("step", "weight"), [(0, 0.1), (5, 2.55), (10, 5.0), (50, 5.0)])
def test_the_commitment_loss_and_its_schedule(step, weight):
    model, plain, batch = build(commitment_steps=10)
    book, mask = book_of(model), batch["attention_mask"].bool()
    book.updates.fill_(1)
    book.counts.fill_(1.0)
    states = states_of(plain, batch)
    distance = cdist(states[mask], book.codes, "sqeuclidean").min(1).mean() / 32
    hf_bam.set_step(model, step)
    out = model.train()(**batch)
    assert out.kl.item() == 0
    assert out.kl_loss.item() == pytest.approx(weight * distance, rel=1e-4)
    out.loss.backward()
    logged = model._bam.runtime.meter.pop()
    assert logged["commitment"].item() == pytest.approx(out.kl_loss.item())
    assert 1 <= logged["perplexity"].item() <= 8
    assert QuantizedFamily(commitment_steps=0).commitment_at(torch.tensor(3)).item() == 5.0


@pytest.mark.parametrize("name", NAMES)
def test_it_trains(name):
    model, _, batch = build(name, num_codes=6)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        out = model(**batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
    assert losses[-1] < losses[0] - 0.2
    assert book_of(model).updates.item() == 30
    text = model.eval().generate(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=4
    )
    assert text.shape[0] == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_codes_exact(dtype):
    model, _, batch = build()
    with torch.autocast("cpu", dtype):
        out = model.train()(**batch)
    out.loss.backward()
    assert book_of(model).codes.dtype == out.kl_loss.dtype == torch.float32
    half, _, _ = build()
    half = half.to(dtype) if dtype is torch.bfloat16 else half
    assert half.train()(**batch).loss.isfinite()


def test_a_collapsed_codebook_is_reported_in_words(caplog):
    book = ready(torch.randn(100, 2) * 100, decay=0.9)
    states, mask = torch.zeros(8, 4, 2), torch.ones(8, 4, dtype=torch.bool)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            book.update(states, mask, book.nearest(states))
    assert "The codebook has collapsed: 1 of 100 codes stand for 99% of the states (perplexity 1.0)" in caplog.text
    caplog.clear()
    healthy = ready(torch.randn(100, 2), decay=0.9)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            states = torch.randn(8, 4, 2)
            healthy.update(states, mask, healthy.nearest(states))
    assert not caplog.text


def test_save_load_and_patch_again(tmp_path):
    model, _, batch = build()
    for _ in range(3):
        model.train()(**batch)
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    for name, buffer in book_of(model).named_buffers():
        assert torch.equal(book_of(loaded).get_buffer(name), buffer)
    with torch.no_grad():
        assert torch.equal(loaded.eval()(**batch).logits, model.eval()(**batch).logits)
    codes = book_of(model).codes
    hf_bam.patch(model, family="quantized", num_codes=8, decay=0.5)
    assert book_of(model).codes is codes
    hf_bam.patch(model, family="quantized", num_codes=9)
    assert len(book_of(model).codes) == 9


def test_two_processes_have_the_codes_of_one(tmp_path):
    launch(2, codebook_program.main, tmp_path / "buffers")
    (one, first), (_, second) = (torch.load(tmp_path / f"buffers-{rank}") for rank in (0, 1))
    for name, buffer in one.items():
        torch.testing.assert_close(first[name], buffer, atol=1e-5, rtol=1e-5)
        assert torch.equal(first[name], second[name])
    assert one["updates"].item() == 4


def test_models_without_a_decoder_are_an_error():
    with pytest.raises(hf_bam.UnsupportedModelError, match="it needs an encoder-decoder model"):
        hf_bam.patch(bert(), family="quantized")


@pytest.mark.parametrize(("name", "value"), [("layers", 1), ("attention", "cross")])
def test_a_choice_of_attention_modules_is_an_error(name, value):
    with pytest.raises(ValueError, match=rf"BamConfig\.{name}={value!r} has no effect with family='quantized'"):
        hf_bam.patch(ARCHITECTURES["marian"].build(), family="quantized", **{name: value})
