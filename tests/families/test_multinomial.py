"""Multinomial attention, against scipy's probabilities, torch's distributions and the plain model."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Categorical, kl_divergence

import hf_bam
from hf_bam.attention.backends import backend_for
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime
from hf_bam.attention.sampling import Sampling
from hf_bam.families import MultinomialFamily

from ..attention.test_memory import Largest
from ..models import ARCHITECTURES, bert, classification, gpt2, language_model
from .kl_case import check_kl_of_padding

SAMPLES = 20_000
SOFT = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


def make_call(counts, batch=SAMPLES, soft=SOFT, heads=1):
    """Return a call whose soft attention over all keys but the last, which is masked, is `soft`."""
    keys = len(soft) + 1
    allowed = torch.arange(keys) < len(soft)
    layer = BamLayer(MultinomialFamily(counts), Runtime(), head_dim=keys)
    query = torch.nn.functional.pad(soft.log(), (0, 1)).expand(batch, heads, 1, keys)
    key = torch.eye(keys, dtype=soft.dtype).expand(batch, heads, keys, keys)
    mask = AttentionMask((batch, heads, 1, keys), allowed=allowed.expand(1, 1, 1, keys))
    return AttentionCall(layer, 0, query, key, key, mask, scale=1.0)


def sampled(counts, sampling=None, **options):
    """Return the weights of independent rows, (samples, keys)."""
    call = make_call(counts, **options)
    if sampling is not None:
        call.layer.eval()
    with torch.no_grad(), call.layer.runtime.sample(sampling):
        _, weights = backend_for(call).run(call)
    return weights[:, 0, 0]


@pytest.mark.parametrize("sampling", [None, Sampling(seed=1)], ids=["training", "sampling"])
@pytest.mark.parametrize("counts", [1, 4, 150], ids=["hard", "few", "several blocks"])
def test_moments(counts, sampling):
    weights = sampled(counts, sampling)
    distribution = stats.multinomial(counts, SOFT.numpy())
    covariance = distribution.cov() / counts**2
    error = np.sqrt(np.diag(covariance) / SAMPLES)
    assert (np.abs(weights[:, :4].mean(0).numpy() - SOFT.numpy()) < 4.5 * error).all()
    found = np.cov(weights[:, :4].numpy().T)
    np.testing.assert_allclose(found, covariance, atol=0.05 * covariance.max())
    assert (weights[:, 4] == 0).all()  # a masked key has no weight
    torch.testing.assert_close(weights.sum(-1), torch.ones(SAMPLES, dtype=torch.float64))


def test_rows_follow_the_multinomial_distribution():
    """Chi-square test over all possible rows of three draws."""
    rows = (sampled(3)[:, :4] * 3).round().long().tolist()
    outcomes = [row for row in itertools.product(range(4), repeat=4) if sum(row) == 3]
    found = [rows.count(list(outcome)) for outcome in outcomes]
    expected = SAMPLES * stats.multinomial(3, SOFT.numpy()).pmf(outcomes)
    assert sum(found) == SAMPLES
    large = expected > 5
    pooled = [[*np.asarray(x)[large], np.asarray(x)[~large].sum()] for x in (found, expected)]
    assert stats.chisquare(*pooled).pvalue > 1e-3


def test_many_draws_approach_soft_attention():
    weights = sampled(100_000, batch=3)
    torch.testing.assert_close(weights[:, :4], SOFT.expand(3, 4), atol=0.01, rtol=0)


def test_the_gradient_is_that_of_soft_attention():
    soft = SOFT.float().expand(2, 1, 1, 4).clone().requires_grad_()
    call, direction = make_call(3, batch=2, soft=SOFT[:3].float()), torch.randn(2, 1, 1, 4)
    call.layer.family.sample(soft, call).mul(direction).sum().backward()
    torch.testing.assert_close(soft.grad, direction)


def test_a_row_without_any_key_has_no_weight():
    call = make_call(5, batch=2)
    weights = torch.zeros(2, 1, 1, 5)
    assert torch.equal(call.layer.family.sample(weights, call), weights)
    empty = torch.zeros(2, 1, 1, 0)
    assert call.layer.family.sample(empty, call).shape == empty.shape


@pytest.mark.parametrize("counts", [1, 4])
def test_kl_by_torch_and_by_enumeration(counts):
    call = make_call(counts, batch=2, heads=3)
    weights = torch.nn.functional.pad(SOFT, (0, 1)).expand(2, 3, 1, 5)
    (term,) = call.layer.family.terms(weights, call)
    expected = 3 * counts * kl_divergence(Categorical(SOFT), Categorical(torch.ones(4))).item()
    assert term.total.flatten().tolist() == pytest.approx([expected] * 2)
    rows = [row for row in itertools.product(range(counts + 1), repeat=4) if sum(row) == counts]
    q, p = (stats.multinomial(counts, probabilities) for probabilities in (SOFT.numpy(), [0.25] * 4))
    assert expected == pytest.approx(3 * sum(q.pmf(row) * (q.logpmf(row) - p.logpmf(row)) for row in rows))
    assert term.count.flatten().tolist() == [12] * 2


def test_kl_and_its_gradient_are_finite_for_vanishing_weights():
    scores = torch.tensor([[[[0.0, -300.0, 5.0, -80.0, 0.0]]]], requires_grad=True)
    (term,) = MultinomialFamily(4).terms(scores.softmax(-1), make_call(4, batch=1))
    term.total.sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert scores.grad.any()


def test_memory_is_that_of_the_weights():
    """Also if a query draws far more keys than there are."""
    batch, keys = 4, 80
    call = make_call(400, batch=batch, soft=torch.full((keys - 1,), 1 / (keys - 1)))
    with Largest() as largest, torch.no_grad():
        backend_for(call).run(call)
    assert largest.elements <= keys * max(keys, batch)  # the keys, or the weights


def test_mean_mode_is_the_plain_model_and_samples_follow_the_seed():
    torch.manual_seed(0)
    model, batch = bert().eval(), classification()
    plain = model(**batch).logits
    hf_bam.patch(model, family="multinomial", counts=2)
    assert torch.equal(model(**batch).logits, plain)
    found = []
    for seed in (1, 1, 2):
        with torch.no_grad(), hf_bam.sampling(model, seed=seed):
            found.append(model(**batch).logits)
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])
    assert not torch.allclose(found[0], plain)


@pytest.mark.parametrize("counts", [3, 100])
def test_padding_on_the_left_does_not_change_a_sample(counts):
    torch.manual_seed(0)
    model = hf_bam.patch(gpt2().eval(), family="multinomial", counts=counts)
    ids = language_model((7,), 7)["input_ids"]
    padded = torch.nn.functional.pad(ids, (3, 0), value=1)
    mask = (torch.arange(10) >= 3).long()[None]
    logits = []
    for tokens, options in ((ids, {"attention_mask": torch.ones_like(ids)}), (padded, {"attention_mask": mask})):
        places = (options["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad(), hf_bam.sampling(model, seed=4):
            logits.append(model(tokens, position_ids=places, **options).logits[:, -7:])
    torch.testing.assert_close(logits[0], logits[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["albert", "bert", "marian"])
def test_it_trains(name):
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    model = hf_bam.patch(architecture.build(), family="multinomial", counts=8).train()
    batch, optimizer = architecture.batch(), torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(20):
        out = model(**batch)
        torch.testing.assert_close(out.loss, out.task_loss + 1e-4 * out.kl)
        assert out.kl > 0
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
    assert losses[-1] < losses[0] - 0.05


def test_the_kl_reaches_queries_and_keys_and_ignores_padding():
    check_kl_of_padding("multinomial", ("query", "key"))


def test_save_and_load(tmp_path):
    torch.manual_seed(0)
    model, batch = hf_bam.patch(bert().eval(), family="multinomial", counts=5), classification()
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert hf_bam.get_config(loaded) == hf_bam.BamConfig(family="multinomial", counts=5)
    logits = []
    for one in (model, loaded):
        with torch.no_grad(), hf_bam.sampling(one, seed=4):
            logits.append(one(**batch).logits)
    assert torch.equal(*logits)


def test_counts_are_checked():
    with pytest.raises(ValueError, match=r"BamConfig.counts=0 is not valid; it must be a whole number, 1 or above"):
        hf_bam.BamConfig(family="multinomial", counts=0)
    with pytest.raises(ValueError, match="the settings of this family are counts, and"):
        hf_bam.BamConfig(family="multinomial", k=1.0)
