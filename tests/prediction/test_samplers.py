"""Samplers: their randomness, and that the model is left as it was found."""

from contextlib import nullcontext

import pytest
import torch
from scipy import stats
from torch import nn

import hf_bam
from hf_bam.prediction import Bam, Dropout, Ensemble, Plain
from hf_bam.prediction.copies import dropouts, shared_copy
from hf_bam.prediction.dropout import SeededDropout

from ..models import ARCHITECTURES, PROMISED, albert, bert

SEEDS = torch.tensor([3, 1, 4])


def inputs(name):
    batch = ARCHITECTURES[name].batch()
    labels = batch.pop("labels")
    if ARCHITECTURES[name].build().config.is_encoder_decoder:
        batch["decoder_input_ids"] = labels.clamp(min=0)
    return batch


def snapshot(model):
    return (
        [module.training for module in model.modules()],
        [(name, rate) for _, name, rate in dropouts(model)],
        [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()],
        torch.get_rng_state().tolist(),
    )


SAMPLERS = {
    "plain": Plain,
    "bam": Bam,
    "dropout": lambda model: Dropout(model, rate=0.3),
    "bam and dropout": lambda model: Bam(model, dropout=0.3),
    "ensemble": lambda model: Ensemble([model]),
}


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was_found(kind, training, fails):
    model = hf_bam.patch(bert()).train(training)
    model.bert.encoder.layer[0].eval()  # a mixture of modes is kept too
    batch = inputs("bert")
    before, sampler = snapshot(model), SAMPLERS[kind](model)
    if fails:
        batch["input_ids"] = batch["input_ids"] + 10_000
    with torch.inference_mode(), pytest.raises(IndexError) if fails else nullcontext():
        sampler.ready().draw(batch, 4, SEEDS)
    assert snapshot(model) == before


@pytest.mark.parametrize("name", [*PROMISED, "t5", "gpt2", "roberta", "distilbert", "recurrent"])
@pytest.mark.parametrize("patched", [False, True])
def test_dropout_works_on_every_model(name, patched):
    """Through modules, through functions with numbers of the layers, and where all rates are 0."""
    model = ARCHITECTURES[name].build()
    if patched:
        hf_bam.patch(model, k=1e6)
    with torch.inference_mode():
        logits = Dropout(model, rate=0.3).ready().draw(inputs(name), 6, SEEDS)["logits"]
    assert all(len(logits[:, row].flatten(1).unique(dim=0)) == 6 for row in range(3))


def test_dropout_reaches_the_attention_weights_themselves():
    """With equal values of all tokens, plain attention returns that value and dropped weights another one."""
    model = bert(num_hidden_layers=1)
    attention = Dropout(model, rate=0.5).ready().model.bert.encoder.layer[0].attention.self
    hidden = torch.ones(3, 7, 32)
    with torch.inference_mode():
        expected = model.eval().bert.encoder.layer[0].attention.self(hidden)[0]
        with SeededDropout(SEEDS):
            dropped = attention(hidden)[0]
    ratio = (dropped / expected).unflatten(-1, (4, 8)).mean(dim=-1)  # (B, T, H): the sum of a row of weights
    assert ratio.min() < 0.8
    assert ratio.max() > 1.2
    assert ratio.mean() == pytest.approx(1, abs=0.2)


def test_dropout_without_any_rate_is_an_error():
    with pytest.raises(ValueError, match=r"All dropout rates of this AlbertForSequenceClassification are 0"):
        Dropout(albert())
    assert Dropout(albert(hidden_dropout_prob=0.1)).rate is None


def test_dropout_leaves_bayesian_attention_in_mean_mode():
    model = hf_bam.patch(bert(), k=0.5)
    with torch.inference_mode(), hf_bam.sampling(model):
        logits = Dropout(model, rate=1e-9).ready().draw(inputs("bert"), 2, SEEDS)["logits"]
    torch.testing.assert_close(logits[0], logits[1], atol=1e-7, rtol=0)  # samples with noise differ by about 1e-2


def test_batch_statistics_are_not_touched():
    model = bert()
    model.extra = nn.BatchNorm1d(3)
    assert not Dropout(model, rate=0.1).ready().model.extra.training


def test_an_ensemble_gives_one_sample_for_each_model():
    models = [bert(), bert()]
    with torch.inference_mode():
        logits = Ensemble(models).ready().draw(inputs("bert"), 5, SEEDS)["logits"]
        expected = torch.stack([model.eval()(**inputs("bert")).logits for model in models])
    assert logits.shape == expected.shape
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])


RANDOM = {
    "bam": Bam,
    "dropout": lambda model: Dropout(model, rate=0.3),
    "bam and dropout": lambda model: Bam(model, dropout=0.3),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_samples_are_a_function_of_the_seed_of_an_input(kind):
    """Whatever else is in the batch, however it is padded, and wherever the input stands in it."""
    model, batch = hf_bam.patch(bert(initializer_range=0.3), k=1.0), inputs("bert")
    sampler = RANDOM[kind](model).ready()
    with torch.inference_mode():
        whole = sampler.draw(batch, 5, SEEDS)["logits"]
        again = sampler.draw(batch, 5, SEEDS)["logits"]
        other = sampler.draw(batch, 5, SEEDS + 1)["logits"]
        alone = sampler.draw({name: x[2:, :3] for name, x in batch.items()}, 5, SEEDS[2:])["logits"]
        moved = sampler.draw({name: x.flip(0) for name, x in batch.items()}, 5, SEEDS.flip(0))["logits"]
        sampler.token_budget = 1
        separate = sampler.draw(batch, 5, SEEDS)["logits"]
    assert torch.equal(whole, again)
    assert (whole - other).abs().mean() > 1e-3
    assert whole.std(dim=0).min() > 1e-4
    torch.testing.assert_close(alone[:, 0], whole[:, 2])
    torch.testing.assert_close(moved.flip(1), whole)
    torch.testing.assert_close(separate, whole)


def test_the_masks_of_seeded_dropout_keep_their_share():
    factor = SeededDropout(torch.arange(50)).factor(torch.Size((100, 40, 30)), 0.2, torch.device("cpu"))
    assert factor.unique().tolist() == pytest.approx([0, 1.25])
    dropped = (factor == 0).double()
    assert stats.binomtest(int(dropped.sum()), dropped.numel(), 0.2).pvalue > 1e-3
    for axis in range(3):  # sums over each axis have the variance of independent masks
        z = (dropped.mean(dim=axis) - 0.2) * (dropped.shape[axis] / 0.16) ** 0.5
        assert z.var().item() == pytest.approx(1, abs=5 * (2 / z.numel()) ** 0.5)


def test_seeded_dropout_is_attention_without_dropout_in_the_limit():
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 4, size, 8) for size in (5, 7, 7))
    mask = torch.rand(3, 1, 5, 7) > 0.3
    mask[..., 0] = True
    attend = torch.nn.functional.scaled_dot_product_attention
    for options in (
        {},
        {"attn_mask": mask},
        {"attn_mask": torch.randn(3, 1, 5, 7)},
        {"is_causal": True},
        {"scale": 0.1},
        {"enable_gqa": True},
    ):
        heads = 2 if "enable_gqa" in options else 4
        expected = attend(query, key[:, :heads], value[:, :heads], **options)
        with SeededDropout(SEEDS):
            actual = attend(query, key[:, :heads], value[:, :heads], dropout_p=1e-7, **options)
        torch.testing.assert_close(actual, expected)


def test_a_copy_shares_tensors_and_nothing_else_that_changes():
    model = hf_bam.patch(bert()).train()
    other = shared_copy(model).eval()
    assert model.training
    assert all(module.training for module in model.modules())
    assert not any(module.training for module in other.modules())
    assert [id(x) for x in other.parameters()] == [id(x) for x in model.parameters()]
    with torch.no_grad():
        model.classifier.weight.zero_()
    assert not other.classifier.weight.any()
    model.double()  # replaces buffers
    assert {x.dtype for x in other.buffers()} == {x.dtype for x in model.buffers()}
    batch = inputs("bert")
    assert torch.equal(other(**batch).logits, model.eval()(**batch).logits)
