"""Bayesian attention and its rivals: what is random, and that the model is left as it was found."""

import pytest
import torch
from torch import nn

import hf_bam
from hf_bam.prediction import Bam, Dropout, Ensemble, Plain
from hf_bam.prediction.samplers import dropouts

from ..models import ARCHITECTURES, PROMISED, albert, bert


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
    with torch.inference_mode():
        if fails:
            with pytest.raises(IndexError), sampler.session(seed=0):
                sampler.draw(batch, 4)
        else:
            with sampler.session(seed=0):
                sampler.draw(batch, 4)
    assert snapshot(model) == before


@pytest.mark.parametrize("name", [*PROMISED, "t5", "gpt2", "roberta", "distilbert"])
@pytest.mark.parametrize("patched", [False, True])
def test_dropout_works_on_every_model(name, patched):
    """Through modules, through functions with numbers of the layers, and where all rates are 0."""
    model = ARCHITECTURES[name].build()
    if patched:
        hf_bam.patch(model, k=1e6)
    sampler = Dropout(model, rate=0.3)
    with torch.inference_mode(), sampler.session(seed=0):
        logits = sampler.draw(inputs(name), 6)["logits"]
    assert all(len(logits[:, row].flatten(1).unique(dim=0)) == 6 for row in range(3))


def test_dropout_reaches_the_attention_weights_themselves():
    model = bert()
    sampler = Dropout(model, rate=0.5)
    seen = []
    original = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **kwargs):
        seen.append(kwargs["dropout_p"])
        return original(*args, **kwargs)

    torch.nn.functional.scaled_dot_product_attention = spy
    try:
        with torch.inference_mode(), sampler.session(seed=0):
            sampler.draw(inputs("bert"), 2)
    finally:
        torch.nn.functional.scaled_dot_product_attention = original
    assert seen == [0.5, 0.5]


def test_dropout_without_any_rate_is_told():
    with pytest.raises(ValueError, match=r"All dropout rates of this AlbertForSequenceClassification are 0"):
        Dropout(albert())
    assert Dropout(albert(hidden_dropout_prob=0.1)).rate is None


def test_dropout_leaves_bayesian_attention_in_mean_mode():
    model = hf_bam.patch(bert(), k=0.5)
    sampler = Dropout(model, rate=1e-9)
    with torch.inference_mode(), sampler.session(seed=0):
        logits = sampler.draw(inputs("bert"), 2)["logits"]
    assert torch.equal(logits[0], logits[1])


def test_batch_statistics_are_not_touched():
    model = bert()
    model.extra = nn.BatchNorm1d(3)
    with Dropout(model, rate=0.1).session(seed=0):
        assert not model.extra.training


def test_an_ensemble_gives_one_draw_for_each_model():
    models = [bert(), bert()]
    sampler = Ensemble(models)
    with torch.inference_mode(), sampler.session(seed=0):
        logits = sampler.draw(inputs("bert"), 5)["logits"]
        expected = torch.stack([model.eval()(**inputs("bert")).logits for model in models])
    assert logits.shape == expected.shape
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])


def test_seeds_make_draws_reproducible():
    model, batch = hf_bam.patch(bert(), k=1.0), inputs("bert")
    for sampler in (Bam(model), Dropout(model, rate=0.3), Bam(model, dropout=0.3)):
        draws = []
        for seed in (0, 0, 1, None):
            with torch.inference_mode(), sampler.session(seed):
                draws.append(sampler.draw(batch, 3)["logits"])
        assert torch.equal(draws[0], draws[1])
        assert not torch.equal(draws[0], draws[2])
        assert not torch.equal(draws[0], draws[3])
