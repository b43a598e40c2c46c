"""The file `bam.safetensors`: `hf_bam.save`, `hf_bam.load` and the errors of files that do not match."""

import copy

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import hf_bam

from ..models import albert, bert, classification
from .cases import assert_same_model, patched_bert


@pytest.fixture
def model():
    return patched_bert()


@pytest.mark.parametrize("name", ["./not/there", "/not/there", "not/there/at/all"])
def test_a_missing_folder(name):
    with pytest.raises(FileNotFoundError, match=f"There is no folder {name}"):
        hf_bam.from_pretrained(name)


def test_a_name_without_a_network(monkeypatch):
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
    hf_bam.load(hf_bam.unpatch(copy.deepcopy(model)), tmp_path)  # another precision is no error


def test_the_saved_file_is_applied_to_a_base_model(model, tmp_path):
    base = copy.deepcopy(model)
    hf_bam.unpatch(base)
    path = hf_bam.save(model, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["bam.safetensors"]
    assert path.stat().st_size < 10_000
    assert_same_model(hf_bam.load(base, tmp_path), model, classification())


def change_header(path, **metadata):
    """Write the same tensors with another header."""
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
def test_newer_and_invalid_headers_raise(model, tmp_path, metadata, message):
    model.save_pretrained(tmp_path)
    change_header(tmp_path / "bam.safetensors", **metadata)
    with pytest.raises(ValueError, match=message):
        hf_bam.from_pretrained(tmp_path)


def test_a_damaged_file_raises(model, tmp_path):
    model.save_pretrained(tmp_path)
    file = tmp_path / "bam.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"bam\.safetensors cannot be read"):
        hf_bam.from_pretrained(tmp_path)


def test_a_plain_folder_raises(tmp_path):
    bert().save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no bam\.safetensors"):
        hf_bam.from_pretrained(tmp_path)


def test_a_base_model_of_another_shape_raises(model, tmp_path):
    hf_bam.save(model, tmp_path)
    with pytest.raises(ValueError, match="does not fit this BertForSequenceClassification"):
        hf_bam.load(bert(num_attention_heads=2), tmp_path)
    with pytest.raises(ValueError, match="does not fit this AlbertForSequenceClassification"):
        hf_bam.load(albert(), tmp_path)


def test_an_unknown_class_raises(model, tmp_path):
    model.save_pretrained(tmp_path)
    change_header(tmp_path / "bam.safetensors", architecture="BertForMyself")
    with pytest.raises(ValueError, match="give model_class"):
        hf_bam.from_pretrained(tmp_path)
    assert_same_model(hf_bam.from_pretrained(tmp_path, model_class=type(model)), model, classification())


def test_the_same_model_gives_the_same_bytes(model, tmp_path):
    """Entries of a header would otherwise be in a random order."""
    files = [hf_bam.save(model, tmp_path / str(number)).read_bytes() for number in range(8)]
    assert len(set(files)) == 1
