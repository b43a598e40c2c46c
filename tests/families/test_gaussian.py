"""Gaussian attention vectors, against torch.distributions, scipy and the plain model."""

import copy

import pytest
import torch
from scipy import stats
from torch.distributions import Independent, Normal, kl_divergence
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

import hf_bam
from hf_bam.attention.backends import backend_for
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime
from hf_bam.attention.sampling import Sampling
from hf_bam.families import GaussianFamily
from hf_bam.families.gaussian import NETWORK

from ..models import ARCHITECTURES, bert, classification, gpt2, language_model, marian, translation
from .kl_case import check_kl_of_padding

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 5, 6


def make_call(batch=BATCH, allowed=None, **settings):
    """Return a call in double precision whose first example may not attend to its last key."""
    layer = BamLayer(GaussianFamily(**settings), Runtime(), head_dim=SIZE).double()
    query, key = torch.randn(batch, HEADS, QUERIES, SIZE).double(), torch.randn(batch, HEADS, KEYS, SIZE).double()
    if allowed is None:
        allowed = torch.ones(batch, 1, QUERIES, KEYS, dtype=torch.bool)
        allowed[0, ..., -1] = False
    mask = AttentionMask((batch, HEADS, QUERIES, KEYS), allowed=allowed)
    return AttentionCall(layer, 0, query, key, torch.randn_like(key), mask, scale=1.0)


def soft(call):
    scores = (call.query @ call.key.transpose(-1, -2)).masked_fill(~call.mask.allowed, -torch.inf)
    return scores.softmax(-1).nan_to_num() @ call.value


def sigma_of(call, vectors):
    """Return the standard deviations by the equation, row by row."""
    network = call.layer.get_submodule(NETWORK)
    hidden = torch.tanh(torch.einsum("kd,bhtd->bhtk", network.hidden_weight, vectors))
    return torch.exp(torch.einsum("dk,bhtk->bhtd", network.output_weight, hidden) + network.bias)


@pytest.mark.parametrize("sampling", [None, Sampling(seed=1)], ids=["training", "sampling"])
def test_samples_are_normal_around_soft_attention(sampling):
    call = make_call(batch=3000, initial_sigma=0.5)
    one = make_call(batch=1)
    call = AttentionCall(
        call.layer, 0, *(x.expand(3000, -1, -1, -1) for x in (one.query, one.key, one.value)), call.mask, scale=1.0
    )
    call.layer.train(sampling is None)
    with torch.no_grad(), call.layer.runtime.sample(sampling):
        output, _ = backend_for(call).run(call)
        vectors = soft(call)
        noise = ((output.transpose(1, 2) - vectors) / sigma_of(call, vectors))[1:]
    assert stats.kstest(noise.flatten()[:20_000].numpy(), "norm").pvalue > 1e-3
    assert abs(stats.pearsonr(noise[:, 0, 0, 0], noise[:, 0, 0, 1]).statistic) < 0.08
    assert abs(stats.pearsonr(noise[:, 0, 0, 0], noise[:, 1, 0, 0]).statistic) < 0.08


@pytest.mark.parametrize("prior", ["standard", "mean_value"])
def test_kl_of_every_query_and_head_by_torch(prior):
    call = make_call(prior=prior, initial_sigma=0.3)
    vectors = soft(call)
    (term,) = call.layer.family.terms(vectors, call)
    mean = torch.zeros_like(vectors)
    if prior == "mean_value":
        mean[0], mean[1] = (call.value[i, :, :number].mean(1)[:, None] for i, number in ((0, KEYS - 1), (1, KEYS)))
    q = Independent(Normal(vectors, sigma_of(call, vectors)), 1)
    p = Independent(Normal(mean, torch.ones_like(mean)), 1)
    torch.testing.assert_close(term.total, kl_divergence(q, p).sum(1))
    assert (term.count == HEADS).all()
    assert term.total.min() > 0


def test_mean_value_of_causal_attention():
    causal = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril()[None, None]
    call = make_call(prior="mean_value", allowed=causal)
    vectors = torch.stack([call.value[:, :, : t + 1].mean(2) for t in range(QUERIES)], dim=2)
    (term,) = call.layer.family.terms(vectors, call)  # posterior and prior have the same mean
    sigma = sigma_of(call, vectors)
    expected = kl_divergence(Normal(0.0, sigma), Normal(0.0, torch.ones_like(sigma))).sum((1, 3))
    torch.testing.assert_close(term.total, expected)


def test_gamma_and_no_prior():
    call = make_call()
    vectors = soft(call)
    (one,), (half,) = (GaussianFamily(gamma=gamma).terms(vectors, call) for gamma in (1.0, 0.5))
    torch.testing.assert_close(half.total, one.total / 2)
    assert not list(GaussianFamily(prior="none").terms(vectors, call))


def test_a_query_that_may_attend_to_nothing_keeps_zeros_and_has_no_kl():
    allowed = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    allowed[1, :, 2] = False
    call = make_call(allowed=allowed, prior="mean_value")
    output, _ = backend_for(call).run(call)
    assert (output[1, 2] == 0).all()
    assert (output[0] != 0).all()
    (term,) = call.layer.family.terms(soft(call), call)
    assert (term.total[1, 2].item(), term.count[1, 2].item()) == (0.0, 0)


@torch.no_grad()
def logits(model, batch):
    """Return the logits of all classes, or of all tokens that have a label."""
    found = model(**batch).logits
    return found[batch["labels"] != -100] if batch["labels"].dim() > 1 else found


@pytest.mark.parametrize("prior", ["standard", "mean_value"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_model(name, prior):
    """Mean mode is the plain model, vanishing noise too, a sample is not, and training works."""
    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    model, batch = architecture.build().eval(), architecture.batch()
    plain = logits(model, batch)
    hf_bam.patch(model, family="gaussian", prior=prior, initial_sigma=1e-7)
    torch.testing.assert_close(logits(model, batch), plain, atol=1e-6, rtol=0)
    with hf_bam.sampling(model, seed=0):
        torch.testing.assert_close(logits(model, batch), plain, atol=1e-4, rtol=1e-4)
    hf_bam.unpatch(model)
    hf_bam.patch(model, family="gaussian", prior=prior, initial_sigma=2.0)
    with hf_bam.sampling(model, seed=0):
        assert not torch.allclose(logits(model, batch), plain, atol=1e-3)
    out = model.train()(**batch)
    assert out.kl > 0
    out.kl.backward()
    networks = [p for name, p in model.named_parameters() if ".bam." in name]
    assert networks
    assert all(p.grad.abs().sum() > 0 for p in networks)


def test_values_of_another_size_than_keys():
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    ranks = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 6}
    rest = {"vocab_size": 60, "intermediate_size": 48, "first_k_dense_replace": 1, "pad_token_id": 1}
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes, **ranks, **rest))
    hf_bam.patch(model, family="gaussian").train()(**language_model()).loss.backward()
    (network,) = (m for m in model.modules() if type(m).__name__ == "SigmaNetwork")
    assert network.bias.shape == (6,)


def test_the_kl_reaches_queries_keys_and_values_and_ignores_padding():
    check_kl_of_padding("gaussian", ("query", "key", "value"))


def test_the_sum_over_layers_is_the_literal_bound():
    """The KL of a model is the sum over layers, heads and tokens, by hooks that see the attention vectors."""
    torch.manual_seed(0)
    model, batch = bert(), classification()
    hf_bam.patch(model, family="gaussian", kl_reduction="sum", initial_sigma=0.2).train()
    found = []

    class Recorded(GaussianFamily):
        def terms(self, vectors, call):
            sigma = sigma_of(call, vectors)
            kl = kl_divergence(Normal(vectors, sigma), Normal(0.0, 1.0)).sum((1, 3))
            found.append((kl * batch["attention_mask"]).sum().item() / len(kl))
            return super().terms(vectors, call)

    for module in model.modules():
        if isinstance(module, BamLayer):
            module.family = Recorded(initial_sigma=0.2)
    assert model(**batch).kl.item() == pytest.approx(sum(found), rel=1e-5)
    assert len(found) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    torch.manual_seed(0)
    model, batch = hf_bam.patch(bert(), family="gaussian", prior="mean_value").train(), classification()
    torch.manual_seed(1)
    exact = model(**batch)
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype):
        out = model(**batch)
    assert out.kl.dtype == torch.float32
    assert out.kl.item() == pytest.approx(exact.kl.item(), rel=0.02)
    out.loss.backward()


def test_noise_is_a_function_of_the_position_with_and_without_a_cache():
    torch.manual_seed(0)
    model = hf_bam.patch(gpt2().eval(), family="gaussian", initial_sigma=1.0)
    ids = language_model((7,), 7)["input_ids"]
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model, seed=3, fixed=True):
            texts.append(model.generate(ids, max_new_tokens=8, do_sample=False, use_cache=use_cache))
    assert torch.equal(*texts)
    assert not torch.equal(texts[0], model.generate(ids, max_new_tokens=8, do_sample=False))


def test_save_and_load(tmp_path):
    torch.manual_seed(0)
    model, batch = hf_bam.patch(marian().eval(), family="gaussian", prior="mean_value", d_sigma=7), translation()
    for name, parameter in model.named_parameters():
        if ".bam." in name:
            torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert hf_bam.get_config(loaded) == hf_bam.BamConfig(family="gaussian", prior="mean_value", d_sigma=7)
    logits = []
    for one in (model, loaded, copy.deepcopy(model)):
        with torch.no_grad(), hf_bam.sampling(one, seed=4):
            logits.append(one(**batch).logits)
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"BamConfig.prior='contextual' is not valid.*'standard', 'mean_value'"):
        hf_bam.BamConfig(family="gaussian", prior="contextual")
    with pytest.raises(ValueError, match=r"BamConfig.initial_sigma=0 leaves nothing random"):
        hf_bam.BamConfig(family="gaussian", initial_sigma=0.0)
    with pytest.raises(ValueError, match=r"BamConfig.initial_sigma=-1"):
        hf_bam.BamConfig(family="gaussian", initial_sigma=-1.0)
    changed = hf_bam.BamConfig(prior="fixed").replace(family="gaussian")  # Weibull and Gaussian share no prior
    assert changed.prior == "standard"
    assert changed.replace(family="weibull", prior="fixed").prior == "fixed"
