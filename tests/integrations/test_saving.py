"""Saved models come back as they were, with hf_bam and without it."""

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
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, BertForSequenceClassification, BertModel

import hf_bam

from ..models import ARCHITECTURES, PROMISED, albert, bert, classification


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = hf_bam.patch(bert(), k=2.0, beta=30.0, layers=[1])
    hf_bam.set_step(model, 7)
    return model.eval()


def drawn(model, batch):
    with torch.no_grad(), hf_bam.sampling(model, seed=3):
        return model(**batch).logits


def assert_same_model(one, other, batch):
    assert type(one) is type(other)
    assert hf_bam.get_config(one) == hf_bam.get_config(other)
    assert one.state_dict().keys() == other.state_dict().keys()
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in one.state_dict().items())
    torch.testing.assert_close(drawn(one, batch), drawn(other, batch), rtol=0, atol=0)


@pytest.mark.parametrize("name", PROMISED)
def test_a_folder_gives_the_patched_model_back(name, tmp_path):
    torch.manual_seed(0)
    model, batch = hf_bam.patch(ARCHITECTURES[name].build(), k=2.0).eval(), ARCHITECTURES[name].batch()
    model.save_pretrained(tmp_path)
    assert_same_model(hf_bam.from_pretrained(tmp_path), model, batch)
    assert not list(tmp_path.glob("*.bin"))


def test_settings_without_parameters_are_kept_too(tmp_path):
    hf_bam.patch(albert(), family="lognormal", sigma=0.7, prior="fixed").save_pretrained(tmp_path)
    config = hf_bam.get_config(hf_bam.from_pretrained(tmp_path))
    assert (config.family, config.sigma, config.prior) == ("lognormal", 0.7, "fixed")


def told(records):
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


def test_transformers_alone_gives_the_plain_model_and_the_log_says_so(model, tmp_path, log, capfd):
    model.save_pretrained(tmp_path)
    capfd.readouterr()
    plain, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert not hf_bam.is_patched(plain)
    assert not any(report.values())
    (message,) = set(told(log.records))  # once
    assert len({id(record) for record in log.records if record.levelno >= logging.WARNING}) == 1
    assert "loaded as the plain one" in message
    assert f"hf_bam.from_pretrained({str(tmp_path)!r})" in message
    assert "UNEXPECTED" not in "".join(capfd.readouterr())
    batch = classification()
    torch.testing.assert_close(plain(**batch).logits, model(**batch).logits, rtol=0, atol=1e-6)


def test_who_asks_for_the_bayesian_model_is_told_nothing(model, tmp_path, log):
    model.save_pretrained(tmp_path)
    hf_bam.from_pretrained(tmp_path)
    AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="bam")
    assert not told(log.records)


def test_the_log_obeys_transformers(model, tmp_path, log):
    model.save_pretrained(tmp_path)
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    finally:
        transformers.logging.set_verbosity(before)
    assert not told(log.records)


def test_a_plain_model_that_is_saved_again_is_not_bayesian(model, tmp_path):
    model.save_pretrained(tmp_path / "bayesian")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "bayesian")
    plain.save_pretrained(tmp_path / "plain")
    assert "bam" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"has no bam\.safetensors"):
        hf_bam.from_pretrained(tmp_path / "plain")


def test_an_adapter_without_its_patch_is_told(tmp_path, log):
    bert().save_pretrained(tmp_path / "base")
    base = hf_bam.patch(BertForSequenceClassification.from_pretrained(tmp_path / "base"))
    config = peft.LoraConfig(target_modules=["query"], task_type="SEQ_CLS", modules_to_save=["prior", "classifier"])
    peft.get_peft_model(base, config).save_pretrained(tmp_path / "adapter")
    loaded = peft.AutoPeftModelForSequenceClassification.from_pretrained(tmp_path / "adapter", num_labels=3)
    assert not hf_bam.is_patched(loaded)
    assert any("loaded as the plain one" in message for message in told(log.records))
    log.clear()
    assert hf_bam.is_patched(hf_bam.from_pretrained(tmp_path / "adapter", num_labels=3))
    assert not [message for message in told(log.records) if "plain one" in message]


def test_the_body_of_a_model_and_a_head_for_a_body(model, tmp_path):
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


@pytest.mark.parametrize("name", ["./not/there", "/not/there", "not/there/at/all"])
def test_a_folder_that_is_not_there(name):
    with pytest.raises(FileNotFoundError, match=f"There is no folder {name}"):
        hf_bam.from_pretrained(name)


def test_a_name_that_nobody_can_look_up(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises((FileNotFoundError, OSError), match=r"cannot be reached|is not in the cache|offline"):
        hf_bam.from_pretrained("somebody/never-downloaded")


def test_tensors_of_another_type_are_an_error(model, tmp_path):
    path = hf_bam.save(model, tmp_path)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name in tensors:
        changed = tensors | {name: tensors[name].to(torch.float32 if name == "bam_step" else torch.int32)}
        save_file(changed, path, metadata)
        with pytest.raises(ValueError, match=f"shape or type, {name} the first"):
            hf_bam.load(hf_bam.unpatch(copy.deepcopy(model)), tmp_path)
    save_file({n: t.bfloat16() if t.is_floating_point() else t for n, t in tensors.items()}, path, metadata)
    hf_bam.load(hf_bam.unpatch(copy.deepcopy(model)), tmp_path)  # another precision is none


def test_the_folder_says_that_it_is_bayesian(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["bam"] == hf_bam.get_config(model).to_dict()
    assert not hasattr(model.config, "bam")


def test_shards(model, tmp_path):
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_same_model(hf_bam.from_pretrained(tmp_path), model, classification())
    report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)[1]
    assert not any(report.values())


def test_a_state_dict_of_ones_own_is_saved(model, tmp_path):
    state = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in model.state_dict().items()}
    model.save_pretrained(tmp_path, state_dict=dict(state))
    loaded = hf_bam.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_the_small_file_is_laid_over_a_base(model, tmp_path):
    base = copy.deepcopy(model)
    hf_bam.unpatch(base)
    path = hf_bam.save(model, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["bam.safetensors"]
    assert path.stat().st_size < 10_000
    assert_same_model(hf_bam.load(base, tmp_path), model, classification())


def test_a_model_inside_another_can_be_saved_alone(model, tmp_path):
    model.bert.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert type(loaded) is type(model.bert)
    own = model.bert.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in loaded.state_dict().items() if name != "bam_step")
    report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)[1]
    assert not any(report.values())


def test_unpatching_ends_it(model, tmp_path):
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


def test_only_the_name_of_the_attention_is_not_enough_to_train():
    model = bert()
    model.set_attn_implementation("bam")
    batch = classification()
    assert model.eval()(**batch).logits.isfinite().all()
    with pytest.raises(RuntimeError, match=r"hf_bam\.patch\(model\)"):
        model.train()(**batch)


def spoil(path, **metadata):
    """The same tensors under another header."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(load_file(path), path, {**header, **metadata})


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"bam_format": "2"}, "install a newer hf_bam"),
        ({"bam_format": ""}, "not written by hf_bam"),
        ({"bam_config": '{"k": 2.0, "colour": "red"}'}, "colour"),
        ({"bam_config": '{"k": -1}'}, "BamConfig.k"),
        ({"bam_config": "{"}, "settings that this hf_bam does not know"),
    ],
)
def test_newer_and_broken_headers_are_named(model, tmp_path, metadata, message):
    model.save_pretrained(tmp_path)
    spoil(tmp_path / "bam.safetensors", **metadata)
    with pytest.raises(ValueError, match=message):
        hf_bam.from_pretrained(tmp_path)


def test_a_damaged_file_is_named(model, tmp_path):
    model.save_pretrained(tmp_path)
    file = tmp_path / "bam.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"bam\.safetensors cannot be read"):
        hf_bam.from_pretrained(tmp_path)


def test_a_plain_folder_is_named(tmp_path):
    bert().save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no bam\.safetensors"):
        hf_bam.from_pretrained(tmp_path)


def test_a_base_that_does_not_fit_is_named(model, tmp_path):
    hf_bam.save(model, tmp_path)
    with pytest.raises(ValueError, match="does not fit this BertForSequenceClassification"):
        hf_bam.load(bert(num_attention_heads=2), tmp_path)
    with pytest.raises(ValueError, match="does not fit this AlbertForSequenceClassification"):
        hf_bam.load(albert(), tmp_path)


def test_an_unknown_class_is_named(model, tmp_path):
    model.save_pretrained(tmp_path)
    spoil(tmp_path / "bam.safetensors", architecture="BertForMyself")
    with pytest.raises(ValueError, match="give model_class"):
        hf_bam.from_pretrained(tmp_path)
    assert_same_model(hf_bam.from_pretrained(tmp_path, model_class=type(model)), model, classification())


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "torch.save"])
def test_copies_are_patched_models_of_their_own(model, way, tmp_path):
    batch = classification()
    if way == "deepcopy":
        twin = copy.deepcopy(model)
    elif way == "pickle":
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


def test_a_spawned_worker_gets_the_patched_model(model):
    batch = classification()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        torch.testing.assert_close(pool.apply(drawn, (model, batch)), drawn(model, batch), rtol=0, atol=1e-6)
