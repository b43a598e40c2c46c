"""`save_pretrained` and `from_pretrained` of patched models, with hf_bam and without it."""

import copy
import io
import json
import logging
import multiprocessing
import pickle

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, BertForSequenceClassification, BertModel

import hf_bam

from ..models import ARCHITECTURES, PROMISED, albert, bert, classification
from .cases import assert_same_model, patched_bert, sample_logits


@pytest.fixture
def model():
    return patched_bert()


@pytest.mark.parametrize("name", PROMISED)
def test_a_folder_is_loaded_as_the_patched_model(name, tmp_path):
    torch.manual_seed(0)
    model, batch = hf_bam.patch(ARCHITECTURES[name].build(), k=2.0).eval(), ARCHITECTURES[name].batch()
    model.save_pretrained(tmp_path)
    assert_same_model(hf_bam.from_pretrained(tmp_path), model, batch)
    assert not list(tmp_path.glob("*.bin"))


def test_settings_without_parameters_are_kept_too(tmp_path):
    hf_bam.patch(albert(), family="lognormal", sigma=0.7, prior="fixed").save_pretrained(tmp_path)
    config = hf_bam.get_config(hf_bam.from_pretrained(tmp_path))
    assert (config.family, config.sigma, config.prior) == ("lognormal", 0.7, "fixed")


def warnings_in(records):
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


def test_transformers_alone_loads_the_plain_model_with_a_warning(model, tmp_path, log, capfd):
    model.save_pretrained(tmp_path)
    capfd.readouterr()
    plain, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert not hf_bam.is_patched(plain)
    assert not any(report.values())
    (message,) = set(warnings_in(log.records))  # once
    assert len({id(record) for record in log.records if record.levelno >= logging.WARNING}) == 1
    assert "loaded as a plain one" in message
    assert f"hf_bam.from_pretrained({str(tmp_path)!r})" in message
    assert "UNEXPECTED" not in "".join(capfd.readouterr())
    batch = classification()
    torch.testing.assert_close(plain(**batch).logits, model(**batch).logits, rtol=0, atol=1e-6)


def test_loading_the_bayesian_model_logs_no_warning(model, tmp_path, log):
    model.save_pretrained(tmp_path)
    hf_bam.from_pretrained(tmp_path)
    AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="bam")
    assert not warnings_in(log.records)


def test_the_warning_follows_the_verbosity_of_transformers(model, tmp_path, log):
    model.save_pretrained(tmp_path)
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    finally:
        transformers.logging.set_verbosity(before)
    assert not warnings_in(log.records)


def test_a_plain_model_that_is_saved_again_is_not_bayesian(model, tmp_path):
    model.save_pretrained(tmp_path / "bayesian")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "bayesian")
    plain.save_pretrained(tmp_path / "plain")
    assert "bam" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"has no bam\.safetensors"):
        hf_bam.from_pretrained(tmp_path / "plain")


def test_an_adapter_on_a_plain_model_logs_a_warning(tmp_path, log):
    bert().save_pretrained(tmp_path / "base")
    base = hf_bam.patch(BertForSequenceClassification.from_pretrained(tmp_path / "base"))
    config = peft.LoraConfig(target_modules=["query"], task_type="SEQ_CLS", modules_to_save=["prior", "classifier"])
    peft.get_peft_model(base, config).save_pretrained(tmp_path / "adapter")
    loaded = peft.AutoPeftModelForSequenceClassification.from_pretrained(tmp_path / "adapter", num_labels=3)
    assert not hf_bam.is_patched(loaded)
    assert any("loaded as a plain one" in message for message in warnings_in(log.records))
    log.clear()
    assert hf_bam.is_patched(hf_bam.from_pretrained(tmp_path / "adapter", num_labels=3))
    assert not [message for message in warnings_in(log.records) if "plain one" in message]


def test_a_base_model_from_a_model_with_a_head_and_conversely(model, tmp_path):
    model.save_pretrained(tmp_path / "whole")
    model.bert.save_pretrained(tmp_path / "body")
    body = AutoModel.from_pretrained(tmp_path / "whole", attn_implementation="bam")
    also = hf_bam.from_pretrained(tmp_path / "whole", model_class=BertModel)
    whole = hf_bam.from_pretrained(tmp_path / "body", model_class=BertForSequenceClassification, num_labels=3)
    expected = {n: p for n, p in model.named_parameters() if ".bam." in n}
    assert expected
    for loaded, prefix in ((body, "bert."), (also, "bert."), (whole, "")):
        own = {prefix + n: p for n, p in loaded.named_parameters() if ".bam." in n}
        assert own.keys() == expected.keys()
        assert all(torch.equal(own[name], expected[name]) for name in own)
        assert loaded.bam_step.item() == 7


def test_a_model_around_a_patched_one_saves_plain_weights(tmp_path):
    outer = bert()
    hf_bam.patch(outer.bert, k=2.0)
    before = copy.copy(vars(outer).get("_keys_to_ignore_on_save"))
    outer.save_pretrained(tmp_path)
    assert not [name for name in load_file(tmp_path / "model.safetensors") if "bam" in name]
    assert vars(outer).get("_keys_to_ignore_on_save") == before
    loaded = hf_bam.from_pretrained(tmp_path).eval()
    assert hf_bam.get_config(loaded).k == 2.0
    batch = classification()
    expected = {n: p for n, p in outer.named_parameters() if ".bam." in n}
    assert expected
    assert all(torch.equal(p, expected[n]) for n, p in loaded.named_parameters() if ".bam." in n)
    torch.testing.assert_close(loaded(**batch).logits, outer.eval()(**batch).logits)


def test_the_config_has_the_settings(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["bam"] == hf_bam.get_config(model).to_dict()
    assert not hasattr(model.config, "bam")


def test_shards(model, tmp_path):
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_same_model(hf_bam.from_pretrained(tmp_path), model, classification())
    report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)[1]
    assert not any(report.values())


def test_a_given_state_dict_is_saved(model, tmp_path):
    state = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in model.state_dict().items()}
    model.save_pretrained(tmp_path, state_dict=dict(state))
    loaded = hf_bam.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_a_model_inside_another_can_be_saved_alone(model, tmp_path):
    model.bert.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert type(loaded) is type(model.bert)
    own = model.bert.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in loaded.state_dict().items() if name != "bam_step")
    report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)[1]
    assert not any(report.values())


def test_an_unpatched_model_is_saved_as_a_plain_one(model, tmp_path):
    hf_bam.unpatch(model).save_pretrained(tmp_path)
    assert not (tmp_path / "bam.safetensors").exists()
    assert "bam" not in json.loads((tmp_path / "config.json").read_text())
    assert not [name for name in model._keys_to_ignore_on_save or () if "bam" in name]


def test_attn_implementation_gives_a_patched_model(model, tmp_path):
    model.save_pretrained(tmp_path / "bayesian")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "bayesian", attn_implementation="bam")
    assert_same_model(loaded.eval(), model, classification())
    bert().save_pretrained(tmp_path / "plain")
    for cls in (AutoModelForSequenceClassification, BertForSequenceClassification):
        fresh = cls.from_pretrained(tmp_path / "plain", attn_implementation="bam")
        assert hf_bam.get_config(fresh) == hf_bam.BamConfig()
        assert fresh.train()(**classification()).kl > 0
    made = AutoModelForSequenceClassification.from_config(fresh.config, attn_implementation="bam")
    assert hf_bam.is_patched(made)


def test_training_with_the_name_of_the_attention_alone_raises():
    model = bert()
    model.set_attn_implementation("bam")
    batch = classification()
    assert model.eval()(**batch).logits.isfinite().all()
    with pytest.raises(RuntimeError, match=r"hf_bam\.patch\(model\)"):
        model.train()(**batch)


@pytest.mark.parametrize("method", ["deepcopy", "pickle", "torch.save"])
def test_copies_are_independent_patched_models(model, method, tmp_path):
    batch = classification()
    if method == "deepcopy":
        twin = copy.deepcopy(model)
    elif method == "pickle":
        twin = pickle.loads(pickle.dumps(model))
    else:
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        buffer.seek(0)
        twin = hf_bam.patch(bert(), hf_bam.get_config(model)).eval()
        twin.load_state_dict(torch.load(buffer, weights_only=True))
    assert_same_model(twin, model, batch)
    with hf_bam.sampling(model):
        assert torch.equal(twin(**batch).logits, twin(**batch).logits)
    twin.save_pretrained(tmp_path)
    assert_same_model(hf_bam.from_pretrained(tmp_path), model, batch)


@pytest.mark.slow
def test_a_spawned_worker_gets_the_patched_model(model):
    batch = classification()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        torch.testing.assert_close(
            pool.apply(sample_logits, (model, batch)), sample_logits(model, batch), rtol=0, atol=1e-6
        )
