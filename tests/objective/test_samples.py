"""Objectives over several samples, against torch's losses and distributions."""

import itertools
import math

import pytest
import torch
from torch import distributions
from torch.nn import functional as F

from hf_bam.objective.samples import (
    Bernoulli,
    Categorical,
    Gaussian,
    consistency_loss,
    mean_loss,
    multi_sample_loss,
)

B, L, C = 3, 5, 4
TOKENS = torch.tensor([[0, 3, 1, -100, -100], [2, 2, 0, 1, 3], [1, -100, -100, -100, -100]])


def logits(*shape, scale=2.0):
    torch.manual_seed(0)
    return (scale * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def make(name, samples):
    """Return a likelihood, torch's loss of one sample as a function of it, and torch's distribution of one sample."""
    if name == "classes":
        labels = torch.tensor([0, 3, 1])
        x = logits(samples, B, C)
        return Categorical(x, labels), lambda one: F.cross_entropy(one, labels), lambda one: one_of(one)
    if name == "tokens":
        x = logits(samples, B, L, C)
        return (
            Categorical(x, TOKENS),
            lambda one: F.cross_entropy(one.flatten(0, 1), TOKENS.flatten()),
            lambda one: one_of(one),
        )
    if name == "several labels":
        labels = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
        x = logits(samples, B, 2)
        return (
            Bernoulli(x, labels),
            lambda one: F.binary_cross_entropy_with_logits(one, labels),
            lambda one: distributions.Bernoulli(logits=one),
        )
    labels = torch.tensor([[0.5], [-1.0], [2.0]], dtype=torch.float64)
    x = logits(samples, B, 1)
    return (
        Gaussian(x, labels),
        lambda one: F.mse_loss(one, labels),
        lambda one: distributions.Normal(one, math.sqrt(0.5)),
    )


def one_of(logits):
    return distributions.Categorical(logits=logits)


NAMES = ("classes", "tokens", "several labels", "numbers")


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_has_the_usual_loss_and_its_gradient(name):
    likelihood, loss, _ = make(name, 1)
    expected = loss(likelihood.predictions[0])
    (expected_gradient,) = torch.autograd.grad(expected, likelihood.predictions)
    for ours in (multi_sample_loss(likelihood), mean_loss(likelihood)):
        torch.testing.assert_close(ours, expected)
        (gradient,) = torch.autograd.grad(ours, likelihood.predictions)
        torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("name", NAMES)
def test_mean_loss_is_the_mean_of_the_usual_losses(name):
    likelihood, loss, _ = make(name, 3)
    torch.testing.assert_close(mean_loss(likelihood), torch.stack([loss(x) for x in likelihood.predictions]).mean())


@pytest.mark.parametrize("name", NAMES)
def test_consistency_by_torch_for_all_pairs(name):
    for samples in (2, 3):
        likelihood, _, distribution = make(name, samples)
        p = [distribution(x) for x in likelihood.predictions]
        pairs = [distributions.kl_divergence(p[i], p[j]) for i, j in itertools.permutations(range(samples), 2)]
        expected = torch.stack(pairs).mean(dim=0)[likelihood.labelled].mean()
        torch.testing.assert_close(consistency_loss(likelihood), expected)


def test_consistency_of_two_samples_by_hand():
    x, labels = logits(2, B, C), torch.tensor([0, -100, 1])
    p, q = x.log_softmax(-1)[:, [0, 2]]
    expected = (
        F.kl_div(q, p, reduction="sum", log_target=True) + F.kl_div(p, q, reduction="sum", log_target=True)
    ) / 4
    torch.testing.assert_close(consistency_loss(Categorical(x, labels)), expected)


def test_the_bound_by_hand():
    """The probability of an example is the product over its tokens; padding does not count."""
    x = logits(3, B, L, C)
    total = 0.0
    for example in range(B):
        probability = 0.0
        for sample in range(3):
            product = 1.0
            for token in range(L):
                label = TOKENS[example, token].item()
                if label != -100:
                    product *= x[sample, example, token].softmax(-1)[label].item()
            probability += product / 3
        total -= math.log(probability)
    assert multi_sample_loss(Categorical(x, TOKENS)).item() == pytest.approx(total / 9)


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_is_tighter_than_the_mean(name):
    likelihood, *_ = make(name, 3)
    assert multi_sample_loss(likelihood) < mean_loss(likelihood) - 1e-3
    same = type(likelihood)(likelihood.predictions[:1].expand_as(likelihood.predictions), likelihood.labels)
    torch.testing.assert_close(multi_sample_loss(same), mean_loss(same))
    assert consistency_loss(same).abs() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name):
    likelihood, *_ = make(name, 3)

    def losses(predictions):
        own = type(likelihood)(predictions, likelihood.labels)
        return multi_sample_loss(own), consistency_loss(own)

    assert torch.autograd.gradcheck(losses, (likelihood.predictions,))


def test_a_mask_leaves_classes_out_of_the_comparison():
    x, labels = logits(2, B, C), torch.tensor([0, 1, 0])
    mask = torch.tensor([[True, True, False, True], [True] * 4, [True, True, False, False]])
    ours = consistency_loss(Categorical(x, labels, mask))
    expected = []
    for example in range(B):
        p, q = (one_of(x[sample, example, mask[example]]) for sample in range(2))
        expected.append((distributions.kl_divergence(p, q) + distributions.kl_divergence(q, p)) / 2)
    torch.testing.assert_close(ours, torch.stack(expected).mean())
    (gradient,) = torch.autograd.grad(ours, x)
    assert torch.isfinite(gradient).all()
    assert not gradient[:, ~mask].any()


def test_extreme_logits_in_float32():
    """Probabilities that underflow, logits of -inf and examples without any label have finite losses."""
    x = torch.tensor([[[300.0, 0.0, -torch.inf]], [[0.0, 300.0, -torch.inf]]], requires_grad=True)
    loss = multi_sample_loss(Categorical(x, torch.tensor([0]))) + consistency_loss(Categorical(x, torch.tensor([0])))
    assert loss.item() == pytest.approx(math.log(2) + 300)
    loss.backward()
    assert torch.isfinite(x.grad).all()
    assert multi_sample_loss(Categorical(x, torch.tensor([-100]))).item() == 0
