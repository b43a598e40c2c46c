"""Draws folded into the batch, and the layers that are computed once for all of them."""

import numpy as np
import pytest
import torch
from scipy import stats

import hf_bam
from hf_bam.prediction import Bam
from hf_bam.prediction.folding import SHARES_PREFIX, draw, stochastic_blocks, widened

from ..models import ARCHITECTURES, albert, bert

ENCODERS = ["albert", "bert", "roberta", "distilbert", "vit"]


def unlabelled(name):
    batch = ARCHITECTURES[name].batch()
    batch.pop("labels")
    return batch


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("layers", ["all", 1, [0]])
def test_the_shared_prefix_gives_the_same_values(name, layers):
    model = hf_bam.patch(ARCHITECTURES[name].build(), k=1.0, layers=layers).eval()
    assert model.config.model_type in SHARES_PREFIX
    batch, results = unlabelled(name), []
    with torch.inference_mode():
        for share in (True, False):
            with hf_bam.sampling(model, seed=0):
                results.append(draw(model, batch, 5, token_budget=10_000, share_prefix=share)["logits"])
    torch.testing.assert_close(*results)
    assert results[0].shape == (5, 3, 3)
    assert len(results[0][:, 0].unique(dim=0)) == 5


def test_layers_before_the_first_stochastic_one_run_once():
    model = hf_bam.patch(bert(num_hidden_layers=4), layers=1).eval()
    rows = []
    for layer in model.bert.encoder.layer:
        layer.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    with torch.inference_mode(), hf_bam.sampling(model):
        draw(model, unlabelled("bert"), 8, token_budget=10_000)
    assert rows == [3, 3, 3, 24]


def test_alberts_uses_are_counted():
    model = hf_bam.patch(albert(), layers=2).eval()
    rows = []
    group = model.albert.encoder.albert_layer_groups[0]
    group.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    with torch.inference_mode(), hf_bam.sampling(model):
        draw(model, unlabelled("albert"), 4, token_budget=10_000)
    assert rows == [3] * 10 + [12] * 2


def test_hooks_are_removed_also_after_an_exception():
    model = hf_bam.patch(bert()).eval()
    with pytest.raises(RuntimeError, match="on purpose"), widened(model, 2, 3):
        raise RuntimeError("on purpose")
    assert not any(block._forward_pre_hooks for block, _ in stochastic_blocks(model))


@pytest.mark.parametrize("budget", [1, 21, 63, 10_000])
def test_the_memory_budget_only_changes_how_many_go_at_once(budget):
    model = hf_bam.patch(bert(), k=1.0).eval()
    sizes = []
    model.classifier.register_forward_hook(lambda module, args, output: sizes.append(len(output)))
    with torch.inference_mode(), hf_bam.sampling(model, seed=0):
        logits = draw(model, unlabelled("bert"), 7, token_budget=budget)["logits"]
    assert logits.shape == (7, 3, 3)
    assert sizes == {1: [3] * 7, 21: [3] * 7, 63: [9, 9, 3], 10_000: [21]}[budget]


def test_folded_draws_follow_the_law_of_separate_passes():
    model = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval()
    batch = {name: tensor[:1] for name, tensor in unlabelled("bert").items()}
    with torch.inference_mode(), hf_bam.sampling(model, seed=0):
        folded = draw(model, batch, 1500, token_budget=10_000)["logits"][:, 0, 0].numpy()
        separate = torch.stack([model(**batch).logits[0, 0] for _ in range(1500)]).numpy()
    assert stats.ks_2samp(folded, separate).pvalue > 1e-3
    assert stats.ttest_ind(folded, separate).pvalue > 1e-3
    assert np.var(folded) == pytest.approx(np.var(separate), rel=0.2)


def test_the_mean_over_draws_converges():
    model = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval()
    with torch.inference_mode(), hf_bam.sampling(model, seed=0):
        logits = draw(model, unlabelled("bert"), 2000, token_budget=20_000)["logits"]
    first, second = logits[:1000], logits[1000:]
    error = logits.std(dim=0) * (2 / 1000) ** 0.5
    assert ((first.mean(dim=0) - second.mean(dim=0)).abs() < 5 * error).all()


def test_a_model_that_is_not_patched_is_told():
    with pytest.raises(ValueError, match=r"not patched; call hf_bam.patch"):
        Bam(bert())
