"""Attention maps against `output_attentions`, and their prior against the network by hand."""

import copy

import pytest
import torch

import hf_bam
from hf_bam.prediction.maps import attention_maps

from ..models import ARCHITECTURES

SEED, SAMPLES = 5, 4


def build(name, **settings):
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    batch = {key: value for key, value in architecture.batch().items() if key != "labels" or "marian" in name}
    return hf_bam.patch(architecture.build(), **settings).eval(), batch


def test_mean_and_spread_are_those_of_output_attentions():
    model, batch = build("bert")
    found = attention_maps(model, batch, SAMPLES, SEED)
    weights = []
    for index in range(SAMPLES):
        with torch.no_grad(), hf_bam.sampling(model, SEED + index):
            weights.append(torch.stack(model(**batch, output_attentions=True).attentions))
    every = torch.stack(weights).double()  # (samples, layers, B, H, T, S)
    assert list(found) == [f"bert.encoder.layer.{layer}.attention.self" for layer in range(2)]
    for layer, own in enumerate(found.values()):
        torch.testing.assert_close(own.mean, every[:, layer].mean(dim=0))
        torch.testing.assert_close(own.std, every[:, layer].std(dim=0), atol=1e-7, rtol=1e-5)
    assert own.std.max() > 0.01


def test_prior_is_the_softmax_of_its_network_over_the_keys_of_the_mask():
    model, batch = build("bert")
    attention = model.bert.encoder.layer[0].attention.self
    found = attention_maps(model, batch, 2)["bert.encoder.layer.0.attention.self"].prior
    with torch.no_grad():
        states = model.bert.embeddings(batch["input_ids"], batch.get("token_type_ids"))
        key = attention.key(states).unflatten(-1, (4, 8)).transpose(1, 2)  # (B, H, S, D)
        prior = attention.bam.prior
        logits = torch.relu(key @ prior.hidden_weight.T + prior.hidden_bias) @ prior.logit_weight[0]
    masked = batch["attention_mask"][:, None] == 0
    expected = logits.masked_fill(masked, -torch.inf).softmax(dim=-1).double()
    torch.testing.assert_close(found[:, :, 0], expected, atol=1e-6, rtol=1e-5)


def test_cross_attention_and_a_family_without_prior():
    model, batch = build("marian", prior="none", attention="cross")
    found = attention_maps(model, batch, 2)
    path = "model.decoder.layers.1.encoder_attn"
    assert found[path].prior is None
    torch.testing.assert_close(found[path].mean.sum(dim=-1), torch.ones_like(found[path].mean[..., 0]))
    assert found[path].std.max() > 0
    assert found["model.encoder.layers.0.self_attn"].std.max() < 1e-8  # it is not stochastic


def test_the_mode_and_the_outputs_of_the_model_stay():
    model, batch = build("bert")
    before = model(**batch).logits
    other = copy.deepcopy(model).train()
    attention_maps(other, batch, 2)
    assert other.training
    assert torch.equal(model(**batch).logits, before)
    assert model(**batch).attentions is None


def test_one_sample_has_no_standard_deviation():
    model, batch = build("bert")
    with pytest.raises(ValueError, match="num_samples=1 is not valid"):
        attention_maps(model, batch, 1)
