"""Models of which a part cannot be patched: `strict=False`, and the parts that errors name."""

import re

import pytest
import torch
import transformers
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GptOssConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    SiglipConfig,
    SiglipForImageClassification,
    SiglipModel,
    T5Gemma2Config,
    T5Gemma2ForConditionalGeneration,
    XLNetConfig,
    XLNetForSequenceClassification,
)

import hf_bam
from hf_bam.config import BamConfig
from hf_bam.patching import patch_without
from hf_bam.patching.state import bam_modules, patch_of

from ..models import bert, classification, language_model, mpnet, translation
from ..sizes import LABELS, PAD, VOCABULARY

SPECIAL = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": 2, "eos_token_id": 0}
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**SPECIAL, **SIZES, "max_position_embeddings": 64}
GROUPED = {**TEXT, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4}
VISION = {**SIZES, "image_size": 8, "patch_size": 4}
OF_GEMMA = {**SPECIAL, "image_token_index": 59, "boi_token_index": 58, "eoi_token_index": 57}


def images(batch):
    return {"pixel_values": torch.randn(len(batch), 3, 8, 8)}


def gemma3():
    config = Gemma3Config(text_config=GROUPED, vision_config=VISION, mm_tokens_per_image=4, **OF_GEMMA)
    return Gemma3ForConditionalGeneration(config), language_model()


def siglip():
    model = SiglipModel(SiglipConfig(text_config={**TEXT, "projection_size": 16}, vision_config=VISION))
    batch = language_model((7, 7, 7))
    return model, {"input_ids": batch["input_ids"], **images(batch["input_ids"]), "return_loss": True}


def siglip_classifier():
    config = SiglipConfig(text_config=TEXT, vision_config=VISION, num_labels=LABELS)
    labels = torch.arange(3) % LABELS
    return SiglipForImageClassification(config), {**images(labels), "labels": labels}


def t5gemma2():
    text = {**GROUPED, "layer_types": ["full_attention"], "query_pre_attn_scalar": 8}
    encoder = {"text_config": text, "vision_config": VISION, "mm_tokens_per_image": 4}
    config = T5Gemma2Config(encoder=encoder, decoder=text, image_token_index=59, eoi_token_index=57, **SPECIAL)
    return T5Gemma2ForConditionalGeneration(config), translation()


# Model, the part that cannot be patched, and those that can.
CASES = {
    "gemma3": (gemma3, "model.vision_tower.head", ["model.model.language_model"]),
    "siglip": (siglip, "vision_model.head", ["model.text_model"]),
    "siglip classifier": (siglip_classifier, "vision_model.head", []),
    "t5gemma2": (
        t5gemma2,
        "model.encoder.vision_tower.head",
        ["model.model.encoder.text_model", "model.model.decoder"],
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    make, head, parts = CASES[request.param]
    torch.manual_seed(0)
    model, batch = make()
    return model.eval(), batch, head, parts


def outputs(model, batch):
    with torch.no_grad():
        return model(**batch).loss


def test_the_error_names_the_module_and_the_parts_that_can_be_patched(case):
    model, _, head, parts = case
    with pytest.raises(hf_bam.UnsupportedModelError) as error:
        hf_bam.patch(model)
    message = str(error.value)
    assert f"{head} (SiglipMultiheadAttentionPoolingHead)" in message
    assert not hf_bam.is_patched(model)
    calls = re.findall(r"hf_bam\.patch\([^)]*\)", message)
    assert calls == [*(f"hf_bam.patch({part})" for part in parts), "hf_bam.patch(model, strict=False)"]
    for call in calls:  # as a reader would
        exec(call, {"hf_bam": hf_bam, "model": model})
        assert hf_bam.is_patched(model)
        hf_bam.unpatch(model)


def test_everything_else_is_patched(case, log):
    model, batch, head, _ = case
    plain = outputs(model, batch)
    assert hf_bam.patch(model, strict=False, k=1.0) is model
    (warning,) = [record.message for record in log.records if "is patched except for" in record.message]
    assert f"{head} (SiglipMultiheadAttentionPoolingHead), which computes its attention without" in warning
    torch.testing.assert_close(outputs(model, batch), plain, atol=1e-5, rtol=0)
    out = model.train()(**batch)
    torch.testing.assert_close(out.loss, out.task_loss + out.kl_loss)
    out.loss.backward()
    assert out.kl > 0
    assert not any(head in path for path, _ in bam_modules(model))
    ran = [layer for path, layer in bam_modules(model) if "pixel_values" in batch or "vision" not in path]
    assert ran
    assert all(layer.prior.hidden_weight.grad.abs().sum() > 0 for layer in ran)
    hf_bam.unpatch(model.eval())
    assert torch.equal(outputs(model, batch), plain)


def test_patching_again_keeps_what_was_left_out_without_a_warning(case, log):
    model, _, head, _ = case
    hf_bam.patch(model, strict=False)
    log.clear()
    hf_bam.patch(model, k=3.0)
    hf_bam.patch(model, strict=False, k=2.0)
    assert hf_bam.get_config(model).settings.k == 2.0
    assert patch_of(model).skipped == (head,)
    assert not any("is patched except for" in record.message for record in log.records)
    hf_bam.unpatch(model)
    with pytest.raises(hf_bam.UnsupportedModelError):
        hf_bam.patch(model)


def test_a_reload_patches_the_same_modules(case, tmp_path):
    model, batch, head, _ = case
    if isinstance(model, T5Gemma2ForConditionalGeneration) and transformers.__version__.startswith("5.6."):
        pytest.skip("this transformers has a T5Gemma 2 whose saved encoder has an attention implementation of its own")
    hf_bam.patch(model, strict=False, k=1.0)
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert patch_of(loaded).skipped == (head,)
    assert [path for path, _ in bam_modules(loaded)] == [path for path, _ in bam_modules(model)]
    results = []
    for own in (model, loaded):
        with hf_bam.sampling(own, seed=3):
            results.append(outputs(own, batch))
    assert torch.equal(*results)


def test_a_module_that_was_left_out_stays_out_when_it_could_be_patched(tmp_path):
    """A later version may be able to."""
    model, first = mpnet().eval(), "mpnet.encoder.layer.0.attention.attn"
    patch_without(model, BamConfig(k=1.0), (first,))
    model.save_pretrained(tmp_path)
    (path,) = [path for path, _ in bam_modules(hf_bam.from_pretrained(tmp_path))]
    assert path == "mpnet.encoder.layer.1.attention.attn.bam"
    base = hf_bam.load(mpnet().mpnet, tmp_path)  # without the head
    assert patch_of(base).skipped == (first.removeprefix("mpnet."),)
    assert model.train()(**classification()).kl > 0


def test_a_part_with_the_interface_keeps_its_own_implementation():
    """The language model has attention sinks, which need its own attention function."""
    vision = CLIPVisionConfig(**VISION, projection_dim=16)
    sizes = {"num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["full_attention"]}
    config = LlavaConfig(text_config=GptOssConfig(**{**GROUPED, **sizes}), vision_config=vision, image_token_index=59)
    config.vision_feature_layer = -1
    model = LlavaForConditionalGeneration(config).eval()
    batch = {"input_ids": torch.tensor([[59] * 4 + [7, 8]]), "pixel_values": torch.randn(1, 3, 8, 8)}
    with torch.no_grad():
        plain = model(**batch).logits
        own = model.model.language_model.config._attn_implementation
        with pytest.raises(hf_bam.UnsupportedModelError, match=r"sinks.*hf_bam\.patch\(model\.model\.vision_tower\)"):
            hf_bam.patch(model)
        hf_bam.patch(model, strict=False, k=1.0)
        assert model.model.language_model.config._attn_implementation == own
        torch.testing.assert_close(model(**batch).logits, plain, atol=1e-5, rtol=0)
        with hf_bam.sampling(model):
            assert not torch.equal(model(**batch).logits, model(**batch).logits)


def test_a_model_of_which_nothing_can_be_patched_is_an_error():
    config = XLNetConfig(vocab_size=VOCABULARY, d_model=16, n_layer=1, n_head=2, d_inner=16)
    model = XLNetForSequenceClassification(config)
    with pytest.raises(hf_bam.UnsupportedModelError) as error:
        hf_bam.patch(model)
    assert "strict=False" not in str(error.value)
    with pytest.raises(hf_bam.UnsupportedModelError, match="has no attention that goes through"):
        hf_bam.patch(model, strict=False)
    assert not hf_bam.is_patched(model)


def test_modules_that_follow_the_others_cannot_be_left_out():
    with pytest.raises(hf_bam.UnsupportedModelError, match="in common with modules that can be patched"):
        patch_without(bert(), BamConfig(), ("bert.encoder.layer.0.attention.self",))
