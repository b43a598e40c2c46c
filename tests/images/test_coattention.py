"""The co-attention model: its parts against those of transformers, and Bayesian attention in all of its attention."""

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModelForVisualQuestionAnswering

import hf_bam
from hf_bam.models import CoAttentionConfig, CoAttentionForVisualQuestionAnswering

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = {**SIZES, "vocab_size": 30, "max_position_embeddings": 16, "pad_token_id": 0}
RATES = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def build(**changes):
    torch.manual_seed(0)
    vision = {**SIZES, **RATES, "image_size": 8, "patch_size": 4}
    config = CoAttentionConfig({**TEXT, **RATES}, vision, classifier_dropout=0.0, num_labels=5, **changes)
    return CoAttentionForVisualQuestionAnswering(config)


def batch(padding=2):
    torch.manual_seed(1)
    ids = torch.randint(1, 30, (3, 5))
    mask = torch.ones_like(ids)
    pad = torch.nn.functional.pad
    images, labels = torch.randn(3, 3, 8, 8), torch.tensor([0, 2, 4])
    return {
        "input_ids": pad(ids, (0, padding)),
        "attention_mask": pad(mask, (0, padding)),
        "pixel_values": images,
        "labels": labels,
    }


def test_the_question_reads_itself_in_both_directions():
    model, inputs = build().eval(), batch(0)
    changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
    changed["input_ids"][:, -1] = changed["input_ids"][:, -1] % 29 + 1
    with torch.no_grad():  # the state of the first token gives the answer; the mask of a decoder would hide the last
        difference = model(**inputs).logits - model(**changed).logits
    assert (difference.abs().amax(dim=1) > 1e-5).all()


def test_the_answer_depends_on_the_image_and_not_on_padding():
    model, inputs = build().eval(), batch(0)
    with torch.no_grad():
        logits = model(**inputs).logits
        torch.testing.assert_close(model(**batch(3)).logits, logits, atol=1e-6, rtol=1e-5)
        assert not torch.allclose(model(**{**inputs, "pixel_values": -inputs["pixel_values"]}).logits, logits)
    loss = torch.nn.functional.cross_entropy(logits, inputs["labels"])
    assert model(**inputs).loss.item() == pytest.approx(loss.item())


def test_hidden_sizes_must_agree():
    with pytest.raises(ValueError, match=r"vision_config\.hidden_size=16 is not valid"):
        CoAttentionConfig(TEXT, {**SIZES, "hidden_size": 16})


def test_all_three_kinds_of_attention_are_patched_and_mean_mode_is_the_plain_model():
    plain, inputs = build().eval(), batch()
    model = hf_bam.patch(copy.deepcopy(plain))
    paths = [name for name, module in model.named_modules() if hasattr(module, "bam")]
    kinds = ("vision.", ".attention.self", ".crossattention.self")
    assert [sum(kind in path for path in paths) for kind in kinds] == [2, 2, 2]
    with torch.no_grad():
        expected = plain(**inputs).logits
        assert torch.equal(model.eval()(**inputs).logits, expected)
        with hf_bam.sampling(model, seed=0):
            first, second = model(**inputs).logits, model(**inputs).logits
    assert not torch.allclose(first, second)
    assert torch.equal(hf_bam.unpatch(model)(**inputs).logits, expected)


@pytest.mark.parametrize("noise", ["entry", "key"])
def test_kl_does_not_count_padding_and_reaches_everything(noise):
    model = hf_bam.patch(build(), noise=noise, kl_weight=1.0)
    kls = []
    for padding in (0, 4):
        torch.manual_seed(3)
        kls.append(model.train()(**batch(padding)).kl.item())
    assert kls[0] == pytest.approx(kls[1], rel=1e-5)
    model.zero_grad()
    model(**batch()).kl_loss.backward()
    for part in (model.vision.layers[0].attention, model.text.encoder.layer[1].crossattention.self):
        queries = [own for name, own in part.named_parameters() if "q" in name.split(".")[-2]]
        assert any(own.grad is not None and own.grad.abs().max() > 0 for own in queries)
        assert part.bam.prior.hidden_weight.grad.abs().max() > 0


def test_save_load_and_auto_classes(tmp_path):
    model = hf_bam.patch(build()).eval()
    model.save_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path)) is CoAttentionConfig
    plain = AutoModelForVisualQuestionAnswering.from_pretrained(tmp_path).eval()
    again = hf_bam.from_pretrained(tmp_path).eval()
    assert type(plain) is type(again) is CoAttentionForVisualQuestionAnswering
    inputs, found = batch(), []
    with torch.no_grad():
        torch.testing.assert_close(plain(**inputs).logits, model(**inputs).logits)
        for one in (model, again):
            with hf_bam.sampling(one, seed=3):
                found.append(one(**inputs).logits)
    torch.testing.assert_close(*found)


def test_some_steps_of_training_lower_the_loss():
    model, inputs = hf_bam.patch(build(), k=2.0), batch()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(20):
        out = model.train()(**inputs)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
    assert losses[-1] < 0.5 * losses[0]
