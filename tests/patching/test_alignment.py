"""Latent alignments in whole models, against runs of the plain model for every alignment."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

import hf_bam

from ..models import translation
from .forced import BUILDERS, Oracle

pytestmark = pytest.mark.usefixtures("trained_posteriors")

LENGTHS, WIDTH = (4, 3), 4


@pytest.fixture(params=BUILDERS)
def name(request):
    return request.param


def case(name):
    """Return a model in double precision, and a batch with padding on both sides."""
    return BUILDERS[name]().double().eval(), translation(LENGTHS, WIDTH)


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None and ".bam." not in name}


def per_example(values, labels):
    """Return the sum over the target tokens of each example, (B,)."""
    return values.masked_fill(labels == -100, 0.0).sum(dim=1)


def brute_force_marginal(runs, labels):
    """Return -log sum_z p(z) prod_t f_t(z) per token: alignments of padding are summed over, with probability 1."""
    total = sum(run.p.prod(dim=1) * per_example(run.log_f, labels).exp() for run in runs)
    return -total.log().sum() / (labels != -100).sum()


def brute_force_hard(runs, labels):
    total = sum(run.p.prod(dim=1) * per_example(run.log_f, labels) for run in runs)
    return -total.sum() / (labels != -100).sum()


def brute_force_bound(runs, labels, q):
    """Return -sum_z q(z) (log f(z) + log p(z) - log q(z)) per token, where q(z) > 0."""
    total = torch.zeros(len(labels), dtype=torch.float64)
    positions = torch.arange(labels.shape[1])
    for run in runs:
        q_z = q[:, positions, torch.tensor(run.alignment)]  # (B, T)
        ratio = per_example(run.log_f + run.p.log() - q_z.log(), labels)
        total += (q_z.prod(dim=1) * ratio).where(q_z.prod(dim=1) > 0, 0.0)
    return -total.sum() / (labels != -100).sum()


def test_the_marginal_likelihood_is_the_sum_over_all_alignments(name):
    model, batch = case(name)
    oracle = Oracle.of(name, model)
    expected = brute_force_marginal(oracle.runs(batch), batch["labels"])
    expected.backward()
    hf_bam.patch(model, family="categorical", objective="marginal").train()
    loss = model(**batch).loss
    loss.backward()
    torch.testing.assert_close(loss, expected)
    found, wanted = gradients(model), gradients(oracle.model)
    assert found.keys() == wanted.keys()
    for parameter, gradient in wanted.items():
        torch.testing.assert_close(found[parameter], gradient, msg=lambda text, n=parameter: f"{n}: {text}")
    hf_bam.patch(model, family="categorical", objective="marginal", test_time="expectation").eval()
    torch.testing.assert_close(model(**batch).loss, expected)


@pytest.mark.parametrize("settings", [{"objective": "hard"}, {"objective": "variational"}], ids=str)
def test_bounds_are_sums_over_all_alignments(name, settings):
    model, batch = case(name)
    oracle = Oracle.of(name, model)
    with torch.no_grad():
        runs = oracle.runs(batch)
        hf_bam.patch(model, family="categorical", **settings).train()
        out = model(**batch)
    if settings["objective"] == "hard":
        torch.testing.assert_close(out.loss, brute_force_hard(runs, batch["labels"]))
        assert out.kl == 0
        return
    q = hf_bam.alignments(model, batch, batch["labels"]).q
    q = q.where(q.sum(dim=-1, keepdim=True) > 0, 1 / q.shape[-1])  # padding of the target does not count
    torch.testing.assert_close(out.loss, brute_force_bound(runs, batch["labels"], q))
    torch.testing.assert_close(out.loss, out.task_loss + out.kl)


@pytest.mark.parametrize("objective", ["marginal", "hard", "variational"])
def test_the_k_best_of_all_positions_are_all_positions(name, objective):
    model, batch = case(name)
    losses = []
    for top_k in (None, WIDTH, 100):
        torch.manual_seed(0)
        hf_bam.unpatch(model) if hf_bam.is_patched(model) else None
        hf_bam.patch(model, family="categorical", objective=objective, top_k=top_k).train()
        losses.append(model(**batch).loss)
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(losses[2], losses[0])


def test_the_k_best_are_renormalised(name):
    """Of two positions, against the plain model run with each of them."""
    model, batch = case(name)
    oracle = Oracle.of(name, model)
    with torch.no_grad():
        p = oracle.soft(batch)
        kept = p.topk(2, dim=-1)
        log_p = (kept.values / kept.values.sum(dim=-1, keepdim=True)).log()
        runs = [oracle.run(batch, (i,) * batch["labels"].shape[1]).log_f for i in range(WIDTH)]
        log_f = torch.stack(runs, dim=-1).gather(-1, kept.indices)
        expected = -per_example((log_p + log_f).logsumexp(dim=-1), batch["labels"]).sum()
        hf_bam.patch(model, family="categorical", objective="marginal", top_k=2).train()
        torch.testing.assert_close(model(**batch).loss, expected / (batch["labels"] != -100).sum())


def test_mean_mode_is_the_plain_model(name):
    model, batch = case(name)
    plain = model(**batch)
    for settings in (
        {"objective": "marginal"},
        {"objective": "hard", "estimator": "score"},
        {"objective": "variational"},
    ):
        hf_bam.patch(model, family="categorical", **settings).eval()
        found = model(**batch)
        torch.testing.assert_close(found.logits, plain.logits, rtol=0, atol=0)
        torch.testing.assert_close(found.loss, plain.loss, rtol=0, atol=0)


def test_the_expectation_is_the_mean_probability_over_the_alignments(name):
    model, batch = case(name)
    oracle = Oracle.of(name, model)
    with torch.no_grad():
        runs = [oracle.run(batch, (i,) * batch["labels"].shape[1]) for i in range(WIDTH)]
        total = sum(run.p[..., None] * run.f for run in runs)
        hf_bam.patch(model, family="categorical", objective="hard", test_time="expectation").eval()
        out = model(**batch)
    torch.testing.assert_close(out.logits.exp(), total)
    torch.testing.assert_close(out.loss, cross_entropy(total.log().flatten(0, 1), batch["labels"].flatten()))


def test_bounds_are_below_the_marginal_likelihood_on_every_batch(name):
    model = BUILDERS[name]().double()
    networks = hf_bam.patch(copy.deepcopy(model), family="categorical", objective="variational").train()
    for seed in range(8):
        torch.manual_seed(seed)
        batch = translation((6, 4, 2), 6)
        marginal = hf_bam.patch(model, family="categorical", objective="marginal").train()(**batch).loss
        hard = hf_bam.patch(model, family="categorical", objective="hard")(**batch).loss
        variational = networks(**batch)
        assert hard >= marginal - 1e-9
        assert variational.loss >= marginal - 1e-9
        assert variational.kl > 0
