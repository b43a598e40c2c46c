"""A short form of `fuzz.py`, and inputs that failed before."""

from collections import Counter

import pytest

from .fuzz import PROPERTIES, fuzz, parse_command, settings_file

COLUMNS = ["--text_column", "text", "--label_column", "label"]


@pytest.mark.parametrize("name", PROPERTIES)
def test_inputs(name):
    counts = Counter()
    fuzz(name, 40, counts)
    assert sum(counts.values()) >= 40


@pytest.mark.parametrize(
    "text",
    [
        *("bam: [1", "a: @1", "bam: 1", "task: [custom]", "data_dir: 5", "model: [a]", "bam: {family: [a]}"),
        *("seed: !!timestamp 2020", "lora: !!bool x", "a: " + "[" * 3000, "learning_rate: " + "9" * 400),
        *("seed: " + "9" * 400, "batch_size: 1e12", "num_train_epochs: 1e300", "dropout: 1", "bam: {k: 5e-324}"),
    ],
    ids=lambda text: text[:30],
)
def test_settings_that_failed_before(text):
    assert not settings_file(text)


@pytest.mark.parametrize(
    "value", ["9" * 400, "9" * 5000, "[" * 3000 + "]" * 3000, "1e999", "5e-324"], ids=lambda v: v[:9]
)
@pytest.mark.parametrize("option", ["--k", "--seed", "--bam_layers", "--batch_size"])
def test_options_that_failed_before(option, value):
    assert parse_command("translation", ["--dataset", "language", option, value]) == 2
    assert parse_command("custom", [*COLUMNS, "--config", "/dev/zero"]) == 2
