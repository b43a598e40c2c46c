"""Adapters of attention modules without transformers' attention interface, against the unpatched models."""

import copy
import io

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertLMHeadModel,
    DebertaV2Model,
    EncoderDecoderModel,
    FalconForCausalLM,
)

import hf_bam
from hf_bam.attention.method import Method
from hf_bam.patching.adapters import ADAPTERS, adapter_for

from ..models import ADAPTED, classification, deberta, deberta_v2, falcon, language_model, mpnet, translation
from ..sizes import SMALL

LARGE = {"initializer_range": 0.3}  # the scores of a tiny model should matter
# Settings that change the attention code, beside those of tests/adapted.py.
VARIANTS = {
    **{name: (name, {}) for name in ADAPTED},
    "deberta without positions": ("deberta", {"relative_attention": False}),
    "deberta content to position": ("deberta", {"pos_att_type": ["c2p"]}),
    "deberta-v2 without positions": ("deberta-v2", {"relative_attention": False}),
    "deberta-v2 projections of its own": ("deberta-v2", {"share_att_key": False, "position_buckets": -1}),
    "deberta-v2 convolution": ("deberta-v2", {"conv_kernel_size": 3, "conv_act": "gelu"}),
    "falcon groups of heads": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon without sharing": ("falcon", {"multi_query": False}),
}


def build(name, **changes):
    base, own = VARIANTS[name]
    return ADAPTED[base].build(**{**LARGE, **own, **changes})


def batch_of(name, lengths=(7, 5, 3), width=7, left=False):
    batch = ADAPTED[VARIANTS[name][0]].batch(lengths, width)
    return {key: x.flip(1) if left and x.dim() == 2 else x for key, x in batch.items()}


def kept(name, batch, tensor):
    """Return the rows of logits that are not those of padding."""
    return tensor if tensor.dim() == 2 else tensor[batch["labels"] != -100]


@pytest.fixture(params=ADAPTED)
def name(request):
    return request.param


def test_every_adapter_is_tested():
    modules = [module for architecture in ADAPTED.values() for module in architecture.build().modules()]
    assert {adapter_for(type(module)) for module in modules} - {None} == set(ADAPTERS.values())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_mean_mode_is_the_plain_model_bit_for_bit_and_vanishing_noise_is_close(variant, left):
    model, batch = build(variant).eval(), batch_of(variant, left=left)
    with torch.no_grad():
        plain = kept(variant, batch, model(**batch).logits)
        hf_bam.patch(model, k=1e7)
        assert torch.equal(kept(variant, batch, model(**batch).logits), plain)
        for options in ({}, {"output_attentions": True}):  # both kinds of backend
            with hf_bam.sampling(model):
                sampled = kept(variant, batch, model(**batch, **options).logits)
            torch.testing.assert_close(sampled, plain, atol=2e-4, rtol=1e-4)
    hf_bam.patch(model, k=1.0)
    with torch.no_grad(), hf_bam.sampling(model):
        assert (kept(variant, batch, model(**batch).logits) - plain).abs().mean() > 1e-2


@pytest.mark.parametrize("variant", VARIANTS)
def test_vanishing_noise_has_the_gradients_of_the_plain_model(variant):
    """Also those of position biases and embeddings, which the scores contain."""
    model, batch = build(variant).double().train(), batch_of(variant)

    def gradients():
        model.zero_grad()
        model(**batch).loss.backward()
        return {
            key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None and ".bam." not in key
        }

    plain = gradients()
    hf_bam.patch(model, k=1e12, kl_weight=0.0)
    ours = gradients()
    assert ours.keys() == plain.keys()
    for key, gradient in plain.items():
        torch.testing.assert_close(ours[key], gradient, atol=1e-5, rtol=1e-4)


def test_weights_without_noise_are_those_of_the_plain_model(name):
    model, batch = build(name).eval(), batch_of(name)
    if name.startswith("falcon"):  # beside its fused code, it has no mask in the code that returns the weights
        model = FalconForCausalLM._from_config(model.config, attn_implementation="eager").eval()
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        plain = model(**batch, output_attentions=True).attentions
        hf_bam.patch(model, k=1e7)
        with hf_bam.sampling(model):
            ours = model(**batch, output_attentions=True).attentions
    for theirs, own in zip(plain, ours, strict=True):
        torch.testing.assert_close(own.transpose(1, 2)[real], theirs.transpose(1, 2)[real], atol=1e-4, rtol=1e-4)


def test_eager_falcon_with_alibi():
    """Its eager code adds ALiBi twice, so that its numbers differ from those of the fused code."""
    config = build("falcon-alibi").config
    torch.manual_seed(0)
    model, batch = FalconForCausalLM._from_config(config, attn_implementation="eager").eval(), language_model()
    with torch.no_grad():
        plain = model(**batch).logits[batch["labels"] != -100]
        hf_bam.patch(model, k=1e7)
        with hf_bam.sampling(model):
            ours = model(**batch).logits[batch["labels"] != -100]
    torch.testing.assert_close(ours, plain, atol=2e-4, rtol=1e-4)


def test_padding_changes_no_sample_and_no_kl(name):
    model = hf_bam.patch(build(name).double(), k=1.0).eval()
    narrow, wide = batch_of(name, (5, 4), 5), {}
    for key, tensor in narrow.items():
        fill = {"labels": -100, "attention_mask": 0, "input_ids": 1}[key]
        wide[key] = torch.nn.functional.pad(tensor, (0, 3), value=fill) if tensor.dim() == 2 else tensor
    results = []
    for batch in (narrow, wide):
        with torch.no_grad(), hf_bam.sampling(model, seed=3):
            results.append(kept(name, batch, model(**batch).logits))
    torch.testing.assert_close(*results, atol=1e-8, rtol=1e-6)
    hf_bam.patch(model, k=1e8).train()
    torch.testing.assert_close(model(**narrow).kl, model(**wide).kl, rtol=1e-6, atol=1e-9)


FAMILIES = {
    "lognormal": {},
    "multinomial": {},
    "gaussian": {},
    "weibull": {"noise": "token", "prior": "fixed"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_every_stage_train(name, family):
    model, batch = hf_bam.patch(build(name), family=family, kl_weight=1.0, **FAMILIES[family]).train(), batch_of(name)
    out = model(**batch)
    out.loss.backward()
    assert torch.isfinite(out.loss)
    assert out.kl >= 0
    with torch.no_grad(), hf_bam.sampling(model.eval()):
        assert not torch.equal(model(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(name, dtype):
    model, batch = ADAPTED[name].build().to(dtype), ADAPTED[name].batch()

    def overflows():
        model.zero_grad()
        model.train()(**batch).loss.backward()
        return {key for key, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()}

    theirs = overflows()  # MPNet's embedding of the padding, in float16
    with torch.no_grad():
        plain = kept(name, batch, model.eval()(**batch).logits)
        hf_bam.patch(model, k=1e6)
        with hf_bam.sampling(model):
            ours = kept(name, batch, model(**batch).logits)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, plain, atol=0.02, rtol=0.05)
    assert overflows() <= theirs


def test_gradient_checkpointing(name):
    model, batch = build(name), batch_of(name)
    if not model.supports_gradient_checkpointing:
        pytest.skip("the plain model has no gradient checkpointing")
    hf_bam.patch(model, k=1.0, noise="key", kl_weight=1.0).train()
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        model.zero_grad()
        out = model(**batch)
        out.loss.backward()
        results.append((out.kl, {key: p.grad for key, p in model.named_parameters() if p.grad is not None}))
        model.gradient_checkpointing_enable()
    assert torch.equal(results[0][0], results[1][0])
    for key, gradient in results[0][1].items():
        torch.testing.assert_close(results[1][1][key], gradient, rtol=1e-3, atol=1e-5)


def test_saved_and_loaded(name, tmp_path):
    model, batch = hf_bam.patch(build(name), k=1.0).eval(), batch_of(name)
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    with torch.no_grad():
        results = []
        for own in (model, loaded):
            with hf_bam.sampling(own, seed=3):
                results.append(own(**batch).logits)
        assert torch.equal(*results)


def test_unpatching_restores_the_plain_model_and_others_are_never_touched(name):
    model, batch = build(name).eval(), batch_of(name)
    other, before = copy.deepcopy(model), {path: {*vars(module)} for path, module in model.named_modules()}
    implementation = model.config._attn_implementation
    with torch.no_grad():
        plain = model(**batch).logits
        hf_bam.patch(model)
        adapted = [path for path, module in model.named_modules() if any(map(is_method, vars(module).values()))]
        assert len(adapted) == 2  # one for each layer
        assert not any(is_method(value) for module in other.modules() for value in vars(module).values())
        hf_bam.unpatch(model)
        assert torch.equal(model(**batch).logits, plain)
        assert torch.equal(other(**batch).logits, plain)
    assert {path: {*vars(module)} for path, module in model.named_modules()} == before
    assert model.config._attn_implementation == implementation


def is_method(value):
    return isinstance(value, Method)


@pytest.mark.parametrize("name", ["mpnet", "gptj"])  # an adapter of forward, and one of a method of its own
def test_copies_and_pickles(name):
    model, batch = hf_bam.patch(build(name), k=1.0).eval(), batch_of(name)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    with torch.no_grad(), hf_bam.sampling(model, seed=1):
        expected = model(**batch).logits
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        hf_bam.unpatch(copy.deepcopy(model))
        with torch.no_grad(), hf_bam.sampling(other, seed=1):
            assert torch.equal(other(**batch).logits, expected)
        methods = [
            (module, value) for module in other.modules() for value in vars(module).values() if is_method(value)
        ]
        assert methods
        assert all(value.module is module for module, value in methods)


@pytest.mark.parametrize("first", ["hook", "patch"])
def test_hooks_of_accelerate_stay_around_the_adapter(first):
    model, batch = build("mpnet").eval(), batch_of("mpnet")
    attention, calls = model.mpnet.encoder.layer[0].attention.attn, []

    class Counting(ModelHook):
        def pre_forward(self, module, *args, **kwargs):
            calls.append(module)
            return args, kwargs

    with torch.no_grad():
        plain = model(**batch).logits
        for step in ("hook", "patch") if first == "hook" else ("patch", "hook"):
            add_hook_to_module(attention, Counting()) if step == "hook" else hf_bam.patch(model, k=1.0)
        with hf_bam.sampling(model):
            assert not torch.allclose(model(**batch).logits, plain, atol=1e-3)
        assert calls == [attention]
        hf_bam.unpatch(model)
        assert torch.equal(model(**batch).logits, plain)
        assert len(calls) == 2
        remove_hook_from_module(attention)
        assert torch.equal(model(**batch).logits, plain)


@pytest.mark.parametrize("first", ["patch", "adapter"])
def test_lora(first):
    torch.manual_seed(1)
    model, batch = build("deberta-v2"), batch_of("deberta-v2")
    lora = LoraConfig(target_modules=["query_proj", "value_proj"], modules_to_save=["prior"] * (first == "patch"))
    if first == "patch":
        hf_bam.patch(model)
    wrapped = get_peft_model(model, lora)
    if first == "adapter":
        hf_bam.patch(wrapped)
    out = wrapped.train()(**batch)
    out.loss.backward()
    trained = {key for key, p in wrapped.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert any("query_proj.lora_B" in key for key in trained)
    assert any("prior" in key for key in trained)


def test_a_model_of_both_kinds():
    """An encoder with adapters and a decoder with the interface."""
    decoder = BertConfig(**{**SMALL, "is_decoder": True, "add_cross_attention": True})
    model = EncoderDecoderModel(encoder=DebertaV2Model(deberta_v2(**LARGE).config), decoder=BertLMHeadModel(decoder))
    model.config.pad_token_id, model.config.decoder_start_token_id = 1, 2
    implementations = [part.config._attn_implementation for part in (model, model.encoder, model.decoder)]
    batch = translation()
    with torch.no_grad():
        plain = model.eval()(**batch).loss
        hf_bam.patch(model, k=1e7)
        torch.testing.assert_close(model(**batch).loss, plain, atol=1e-5, rtol=0)
        with hf_bam.sampling(model):
            torch.testing.assert_close(model(**batch).loss, plain, atol=1e-4, rtol=0)
    assert model.encoder.config._attn_implementation == implementations[1]
    assert model.train()(**batch).kl > 0
    hf_bam.unpatch(model)
    assert [part.config._attn_implementation for part in (model, model.encoder, model.decoder)] == implementations


def test_the_implementation_bam_gives_the_mask_of_the_plain_model(tmp_path):
    """transformers makes the mask for the attention implementation of the config."""
    model, batch = mpnet(**LARGE).eval(), classification()
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="bam").eval()
    assert hf_bam.is_patched(loaded)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(loaded(**batch).logits, model(**batch).logits)
            if hf_bam.is_patched(loaded):
                hf_bam.unpatch(loaded)


def test_talking_heads_are_an_error():
    with pytest.raises(hf_bam.UnsupportedModelError, match=r"\(talking_head=True\)"):
        hf_bam.patch(deberta(talking_head=True))


def test_attention_code_of_others_is_not_replaced():
    """A class derived from a known one keeps its adapter only with the same code."""
    known = type(falcon().transformer.h[0].self_attention)
    assert adapter_for(type("Same", (known,), {})) is not None
    assert adapter_for(type("Other", (known,), {"forward": lambda self: None})) is None
