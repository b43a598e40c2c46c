"""LoRA and Bayesian attention in one model."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import BertForSequenceClassification, BitsAndBytesConfig, Trainer, TrainingArguments

import hf_bam

from ..models import bert, classification
from .cases import sample_logits
from .test_trainer import SETTINGS, rows


def lora(**changes):
    settings = {
        "task_type": "SEQ_CLS",
        "r": 2,
        "target_modules": ["query", "value"],
        "modules_to_save": ["classifier"],
    }
    return LoraConfig(**{**settings, **changes})


def after_patching():
    """Return a PEFT model with the prior in `modules_to_save`; PEFT freezes all modules that are not named."""
    model = hf_bam.patch(bert(), k=2.0, kl_weight=0.5)
    return get_peft_model(model, lora(modules_to_save=["classifier", "prior"]))


def before_patching():
    return hf_bam.patch(get_peft_model(bert(), lora()), k=2.0, kl_weight=0.5)


ORDERS = {"after": after_patching, "before": before_patching}


@pytest.fixture(params=ORDERS)
def model(request, tmp_path):
    """Return a PEFT model whose base model is in a folder, as PEFT expects."""
    torch.manual_seed(0)
    model = ORDERS[request.param]()
    torch.manual_seed(0)
    bert().save_pretrained(tmp_path / "base")
    model.peft_config["default"].base_model_name_or_path = str(tmp_path / "base")
    return model


def train(model, steps=3):
    batch = classification()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    for _ in range(steps):
        out = model.train()(**batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert out.kl > 0
    return model.eval()


def priors(model):
    return {n: p.clone() for n, p in model.named_parameters() if ".bam." in n and "original_module" not in n}


def test_the_prior_and_the_adapter_are_trained_and_the_base_is_not(model):
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    before = priors(model)
    adapter = {n: p.clone() for n, p in model.named_parameters() if "lora_B" in n}
    train(model)
    own = dict(model.named_parameters())
    logits = [name for name in before if name.endswith("logit_weight")]
    assert len(logits) == 2
    assert all(not torch.equal(own[name], before[name]) for name in logits)
    assert all(not torch.equal(own[name], value) for name, value in adapter.items())
    assert all(torch.equal(own[name], value) for name, value in frozen.items())


def test_adapter_and_bam_are_loaded_together(model, tmp_path):
    batch = classification()
    train(model).save_pretrained(tmp_path / "adapter")
    files = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "bam.safetensors"} <= files
    assert "model.safetensors" not in files
    loaded = hf_bam.from_pretrained(tmp_path / "adapter").eval()
    assert isinstance(loaded, PeftModel)
    assert hf_bam.get_config(loaded) == hf_bam.get_config(model)
    torch.testing.assert_close(sample_logits(loaded, batch), sample_logits(model, batch), rtol=0, atol=0)


def test_peft_alone_loads_the_adapter_onto_a_patched_base(model, tmp_path):
    batch = classification()
    train(model).save_pretrained(tmp_path / "adapter")
    torch.manual_seed(0)
    base = hf_bam.load(bert(), tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    torch.testing.assert_close(sample_logits(loaded, batch), sample_logits(model, batch), rtol=0, atol=0)


def test_merging_keeps_the_bayesian_attention(model, tmp_path):
    batch = classification()
    expected = sample_logits(train(model), batch)
    merged = model.merge_and_unload().eval()
    assert hf_bam.is_patched(merged)
    torch.testing.assert_close(sample_logits(merged, batch), expected, rtol=1e-4, atol=1e-5)
    merged.save_pretrained(tmp_path / "merged")
    loaded = hf_bam.from_pretrained(tmp_path / "merged").eval()
    torch.testing.assert_close(sample_logits(loaded, batch), sample_logits(merged, batch), rtol=0, atol=0)


def test_trainer_resumes_an_adapter_with_its_prior(model, tmp_path):
    torch.manual_seed(0)
    data = rows(classification(lengths=(7, 5, 3, 6), width=7))
    settings = {
        **SETTINGS,
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "save_strategy": "steps",
        "save_steps": 2,
    }
    arguments = TrainingArguments(str(tmp_path / "out"), **settings)
    Trainer(model, arguments, train_dataset=data).train()
    trained = priors(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".bam." in name:
                parameter.zero_()
    checkpoint = str(tmp_path / "out" / "checkpoint-2")
    Trainer(model, arguments, train_dataset=data).train(resume_from_checkpoint=checkpoint)
    assert all(torch.equal(value, trained[name]) for name, value in priors(model).items())


def test_a_prior_that_peft_has_frozen_raises():
    model = get_peft_model(hf_bam.patch(bert()), lora())
    with pytest.raises(ValueError, match="modules_to_save"):
        model.train()(**classification())


def test_a_frozen_base_trains_the_prior_and_the_head():
    model = hf_bam.patch(bert(), k=2.0, kl_weight=0.5)
    model.requires_grad_(False)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".bam." in name or "classifier" in name)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    train(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad, name


def test_quantised_layers(tmp_path):
    """The attention function takes the outputs of the layers, in whatever format their weights are stored."""
    pytest.importorskip("bitsandbytes")
    bert().save_pretrained(tmp_path)
    quantised = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["classifier", "pooler"])
    model = BertForSequenceClassification.from_pretrained(tmp_path, quantization_config=quantised, device_map="cpu")
    batch = classification()
    plain = model(**batch).logits
    hf_bam.patch(model, k=1.0)
    torch.testing.assert_close(model(**batch).logits, plain)
    assert not torch.allclose(sample_logits(model, batch), plain)
    model.train()(**batch).loss.backward()
    assert all(p.grad.any() for name, p in model.named_parameters() if name.endswith("logit_weight"))
