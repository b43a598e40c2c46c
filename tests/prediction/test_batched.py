"""Batched sampling: expanded batches, and layers that are computed once for all samples."""

import numpy as np
import pytest
import torch
from scipy import stats

import hf_bam
from hf_bam.patching.architectures import SHARES_PREFIX
from hf_bam.patching.expansion import stochastic_blocks
from hf_bam.prediction import Bam

from ..models import ARCHITECTURES, albert, bert

SEEDS = torch.tensor([3, 1, 4])
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
            sampler = Bam(model, 10_000)
            assert sampler.share_prefix
            sampler.share_prefix = share
            results.append(sampler.draw(batch, 5, SEEDS)["logits"])
    torch.testing.assert_close(*results)
    assert results[0].shape == (5, 3, 3)
    assert len(results[0][:, 0].unique(dim=0)) == 5


def test_layers_before_the_first_stochastic_one_run_once():
    model = hf_bam.patch(bert(num_hidden_layers=4), layers=1).eval()
    rows = []
    for layer in model.bert.encoder.layer:
        layer.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    with torch.inference_mode():
        Bam(model, 10_000).draw(unlabelled("bert"), 8, SEEDS)
    assert rows == [3, 3, 3, 24]


def test_layers_of_albert_before_the_first_stochastic_one_run_once():
    model = hf_bam.patch(albert(), layers=2).eval()
    rows = []
    group = model.albert.encoder.albert_layer_groups[0]
    group.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    with torch.inference_mode():
        Bam(model, 10_000).draw(unlabelled("albert"), 4, SEEDS)
    assert rows == [3] * 10 + [12] * 2


def test_hooks_follow_the_settings_and_go_with_the_patch():
    model = hf_bam.patch(bert(num_hidden_layers=4))
    hooked = [[len(layer._forward_pre_hooks) for layer in model.bert.encoder.layer]]
    assert len(stochastic_blocks(model)) == 4
    hf_bam.patch(model, layers=1)
    hooked.append([len(layer._forward_pre_hooks) for layer in model.bert.encoder.layer])
    hf_bam.unpatch(model)
    hooked.append([len(layer._forward_pre_hooks) for layer in model.bert.encoder.layer])
    assert hooked == [[1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("budget", [1, 21, 63, 10_000])
def test_the_token_budget_changes_only_the_number_of_samples_at_once(budget):
    model = hf_bam.patch(bert(), k=1.0).eval()
    sizes = []
    model.classifier.register_forward_hook(lambda module, args, output: sizes.append(len(output)))
    batch = unlabelled("bert")
    with torch.inference_mode():
        logits = Bam(model, budget).draw(batch, 7, SEEDS)["logits"]
        assert sizes == {1: [3] * 7, 21: [3] * 7, 63: [9, 9, 3], 10_000: [21]}[budget]
        torch.testing.assert_close(logits, Bam(model, 42).draw(batch, 7, SEEDS)["logits"])
        later = Bam(model, budget).draw(batch, 3, SEEDS, first=4)["logits"]
    torch.testing.assert_close(later, logits[4:])
    assert logits.shape == (7, 3, 3)


def test_batched_samples_have_the_distribution_of_separate_passes():
    model = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval()
    batch = {name: tensor[:1] for name, tensor in unlabelled("bert").items()}
    with torch.inference_mode(), hf_bam.sampling(model, seed=0):
        batched = Bam(model, 10_000).draw(batch, 1500, SEEDS[:1])["logits"][:, 0, 0].numpy()
        separate = torch.stack([model(**batch).logits[0, 0] for _ in range(1500)]).numpy()
    assert stats.ks_2samp(batched, separate).pvalue > 1e-3
    assert stats.ttest_ind(batched, separate).pvalue > 1e-3
    assert np.var(batched) == pytest.approx(np.var(separate), rel=0.2)


def test_the_mean_over_samples_converges():
    model = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval()
    with torch.inference_mode():
        logits = Bam(model, 20_000).draw(unlabelled("bert"), 2000, SEEDS)["logits"]
    first, second = logits[:1000], logits[1000:]
    error = logits.std(dim=0) * (2 / 1000) ** 0.5
    assert ((first.mean(dim=0) - second.mean(dim=0)).abs() < 5 * error).all()


def test_a_model_that_is_not_patched_is_an_error():
    with pytest.raises(ValueError, match=r"not patched; call hf_bam.patch"):
        Bam(bert())
