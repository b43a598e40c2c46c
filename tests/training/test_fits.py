"""Fits of a run to its rows: files of predictions and the saved predictor have them."""

import csv
import json

import numpy as np
import pytest

from hf_bam.cli import main
from hf_bam.prediction import Predictor

from .conftest import sentences

OPTIONS = ["--recipe", "fast", "--max_steps", "30", "--learning_rate", "1e-2", "--batch_size", "8", "--samples", "3"]
COLUMNS = ["--text_column", "text", "--label_column", "label", "--uncertainty_rows", "20", "--no_report"]


@pytest.fixture
def noisy(tmp_path):
    """Files of the task custom, in which every eighth label is wrong."""
    other = {"good": "bad", "bad": "good"}
    for name, number in {"train": 80, "validation": 40}.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            for i, row in enumerate(sentences(number)):
                writer.writerow({**row, "label": other[row["label"]] if i % 8 == 3 else row["label"]})
    return tmp_path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("attention", ["bam", "plain"])
def test_the_saved_predictor_repeats_the_predictions_of_the_run(attention, noisy, model_folder, tmp_path, capsys):
    output = tmp_path / "run"
    own = ["--model", str(model_folder), "--data_dir", str(noisy), "--output", str(output), "--attention", attention]
    assert main(["custom", *own, *COLUMNS, *OPTIONS]) == 0
    assert "Fitted, and saved with the model: " in capsys.readouterr().out
    written = read(output / "predictions" / "validation.jsonl")
    assert [row["num_samples"] for row in written] == [3, 1] * 20
    for row in written:
        assert 0 <= row["novelty_percentile"] <= 1
        assert set(row["prediction_set"]) <= {"good", "bad"}
    assert np.mean([row["label"] in row["prediction_set"] for row in written]) >= 0.85
    new = tmp_path / "new.jsonl"
    files = ["--input", str(noisy / "validation.csv"), "--output", str(new), "--prefix", "own_"]
    assert main(["predict", "--model", str(output / "model"), *files]) == 0
    number = 3 if attention == "bam" else 1  # dropout of a plain model is a method of the run, not its predictor
    other_sets = 0
    for row, again in zip(written, read(new), strict=True):
        assert again["own_num_samples"] == number
        assert again["own_novelty"] == pytest.approx(row["novelty"], abs=1e-3)
        if row["num_samples"] == number:
            for name in ("prediction", "in_distribution"):
                assert again[f"own_{name}"] == row[name]
            other_sets += again["own_prediction_set"] != row["prediction_set"]
            assert again["own_probability"] == pytest.approx(row["probability"], abs=1e-5)
    assert other_sets <= 1  # the threshold is the score of one of the rows, which other batches round differently
    if attention == "bam":
        assert "| prediction sets | coverage of at least 0.9 |" in (output / "model" / "README.md").read_text()
    assert main(["custom", *own, *COLUMNS, *OPTIONS, "--fit_rows", "0", "--overwrite_output_dir"]) == 0
    assert "novelty" not in read(output / "predictions" / "validation.jsonl")[0]
    assert Predictor.from_pretrained(output / "model").describe() == {}
