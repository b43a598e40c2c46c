"""Score-function gradients of latent alignments: unbiased, and of less variance with the baseline."""

import pytest
import torch

import hf_bam
from hf_bam.families import categorical

from ..models import marian, translation

pytestmark = pytest.mark.usefixtures("trained_posteriors")

COPIES, RUNS = 256, 60


def gradient(model):
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def sampled_gradients(model, batch, runs=RUNS):
    """Return gradients of the loss of many equal examples, (runs, parameters): means over independent samples."""
    many = {name: tensor.repeat(COPIES, 1) for name, tensor in batch.items()}
    found = []
    for _ in range(runs):
        model.zero_grad()
        model(**many).loss.backward()
        found.append(gradient(model))
    return torch.stack(found)


def exact_gradient(model, batch):
    model.zero_grad()
    model(**batch).loss.backward()
    return gradient(model)


@pytest.fixture
def case():
    torch.manual_seed(1)
    small = {"d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8}
    model = marian(init_std=0.5, encoder_layers=1, decoder_layers=1, decoder_ffn_dim=8, **small)
    return model.double(), translation((4,), 4)


@pytest.mark.parametrize("objective", ["hard", "variational"])
def test_the_gradient_is_that_of_enumeration(case, objective):
    model, batch = case
    hf_bam.patch(model, family="categorical", objective=objective, d_inference=4).train()
    exact = exact_gradient(model, batch)
    hf_bam.patch(model, family="categorical", objective=objective, d_inference=4, estimator="score")
    found = sampled_gradients(model, batch)
    error = found.std(dim=0) / RUNS**0.5
    random = error > 1e-12
    torch.testing.assert_close(found.mean(dim=0)[~random], exact[~random])
    z = (found.mean(dim=0) - exact)[random] / error[random]
    assert random.float().mean() > 0.3
    assert z.abs().max() < 6
    assert (z.abs() > 3).float().mean() < 0.01
    # One direction of every tensor, as z-tests of tensors rather than of single numbers.
    start = 0
    for name, parameter in model.named_parameters():
        size = parameter.numel()
        direction = torch.randn(size, dtype=torch.float64)
        projected = (found[:, start : start + size] - exact[start : start + size]) @ direction
        start += size
        if projected.std() > 1e-12:
            assert abs(projected.mean() / projected.std() * RUNS**0.5) < 4.5, name


def test_without_the_score_function_the_gradient_is_biased(case, monkeypatch):
    """The test above can fail."""
    model, batch = case
    hf_bam.patch(model, family="categorical", objective="hard").train()
    exact = exact_gradient(model, batch)
    monkeypatch.setattr(categorical, "score_function", lambda log_f, log_probability, baseline: log_f)
    hf_bam.patch(model, family="categorical", objective="hard", estimator="score")
    found = sampled_gradients(model, batch, runs=20)
    error = found.std(dim=0) / 20**0.5
    random = error > 1e-12
    assert ((found.mean(dim=0) - exact)[random] / error[random]).abs().max() > 10


@pytest.mark.parametrize(("objective", "factor"), [("hard", 20), ("variational", 2)])
def test_the_baseline_lowers_the_variance(case, objective, factor, monkeypatch):
    """Of the whole gradient; 60 runs gave factors of 42 and 3."""
    model, batch = case
    hf_bam.patch(model, family="categorical", objective=objective, estimator="score", d_inference=4).train()
    with_baseline = sampled_gradients(model, batch, runs=30).var(dim=0).sum()
    original = categorical.score_function
    monkeypatch.setattr(
        categorical, "score_function", lambda log_f, log_q, baseline: original(log_f, log_q, torch.zeros_like(log_f))
    )
    without = sampled_gradients(model, batch, runs=30).var(dim=0).sum()
    assert factor * with_baseline < without, (with_baseline, without)
