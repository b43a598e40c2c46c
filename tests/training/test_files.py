"""YAML and JSON files, and values of a command line."""

import pytest
import yaml

from hf_bam.training import resolve
from hf_bam.training.files import parse_value, read_yaml, write_yaml


def test_numbers():
    """YAML 1.1 reads the first three as strings."""
    values = [parse_value(text) for text in ("1e-4", "2E5", "-3.5e+2", "0.1", "3", "none", "true", "fp32", "[0, -1]")]
    assert values == [1e-4, 2e5, -350.0, 0.1, 3, None, True, "fp32", [0, -1]]
    assert isinstance(parse_value("3"), int)


TEXTS = [
    "12:30:45",
    "1_000",
    "0o17",
    "0x10",
    "007",
    "1_0.5",
    "yes",
    "no",
    "on",
    "Off",
    "y",
    "2020-01-01",
    ".inf",
    ".NaN",
]


@pytest.mark.parametrize("text", [*TEXTS, "1e", "0b1", "1,5", "٣"])
def test_other_forms_are_text(text, tmp_path):
    """YAML 1.1 has numbers to the base of 60, 16 and 8, dates, and several booleans."""
    assert parse_value(text) == text
    (tmp_path / "config.yaml").write_text(f"a: {text}\n")
    assert read_yaml(tmp_path / "config.yaml") == {"a": text}


@pytest.mark.parametrize("text", ["#5", "5 # five", "a: b", "[0", "", "~", "!!int 5", "&a 5", "--- 5"])
def test_a_command_line_is_not_yaml(text):
    assert parse_value(text) == text


@pytest.mark.parametrize("text", [*TEXTS, "1e-4", "5", "true", "null", ".5", "2.0", "none"])
def test_text_is_read_as_text(text, tmp_path):
    job = resolve({"task_name": "translation", "model_name_or_path": text, "options": {"prefix": text}})
    write_yaml(tmp_path / "config.yaml", job.to_dict())
    assert resolve(read_yaml(tmp_path / "config.yaml")) == job
    strict = yaml.safe_load((tmp_path / "config.yaml").read_text())  # any other reader agrees
    assert (strict["model_name_or_path"], strict["options"]["prefix"]) == (text, text)


def test_anchors(tmp_path):
    (tmp_path / "config.yaml").write_text("bam: &b {k: 2, beta: 1}\noptions: {<<: *b, k: 3}\n")
    assert read_yaml(tmp_path / "config.yaml")["options"] == {"k": 3, "beta": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("lr: [", "is not YAML"),
        ("- lr", "expected settings"),
        (None, "cannot be read: No such file"),
        ("lr: 1\nseed: 3\nlr: 2\n", "'lr' is given twice .* line 3"),
        ("bam: {k: 1, 'k': 2}\n", "'k' is given twice"),
        (r'lr: "\U99999999"', "is not YAML"),
    ],
)
def test_errors_of_a_file(content, words, tmp_path):
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=words):
        read_yaml(path)
