"""Complete runs of the command line on a tiny model and tiny data."""

import csv
import json
import re
import statistics

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import hf_bam
from hf_bam.cli import main
from hf_bam.training.files import read_yaml

SHORT = ["--recipe", "fast", "--lr", "1e-2", "--batch_size", "8", "--epochs", "4"]
NO_SAMPLES = ["--samples", "0"]  # and no report, which takes most of the time


def results(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def bayesian(custom, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bayesian")
    assert main(["custom", *custom, *SHORT, "--samples", "3", "--output", str(folder), "--k", "2"]) == 0
    return folder


def test_scores_and_uncertainty(bayesian):
    found = results(bayesian)
    assert found["scores"]["validation"]["accuracy"] > 0.9
    assert [row["method"] for row in found["uncertainty"]["validation"]] == [
        "mean attention",
        "BAM, 3 samples",
        "mean attention + temperature",
        "BAM, 3 samples + temperature",
    ]
    assert found["rows"] == {"train": 44, "validation": 14, "test": 2}
    assert found["steps"] == 24


def test_the_saved_model_has_the_scores(bayesian, tokenizer, data_folder):
    model = hf_bam.from_pretrained(bayesian / "model")
    assert hf_bam.get_config(model).k == 2.0
    with (data_folder / "validation.csv").open() as file:
        rows = list(csv.DictReader(file))
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    with torch.no_grad():
        indices = model(**batch).logits.argmax(-1).tolist()
    predicted = [model.config.id2label[index] for index in indices]
    right = [label == row["label"] for label, row in zip(predicted, rows, strict=True)]
    assert results(bayesian)["scores"]["validation"]["accuracy"] == pytest.approx(sum(right) / len(right))
    written = (bayesian / "predictions" / "custom-validation.tsv").read_text().split("\n")[1:-1]
    assert [line.split("\t")[1] for line in written] == predicted


def test_prediction_files_have_the_uncertainty_of_the_samples(bayesian, data_folder):
    """All rows of labelled and unlabelled sets, with the numbers of a predictor of the saved model."""
    columns = ["idx", "text", "label", "prediction", "probability", "std", "entropy", "aleatoric", "epistemic"]
    predictor = hf_bam.BamPredictor.from_pretrained(bayesian / "model", num_samples=3, max_length=64, progress=False)
    for name, number in {"validation": 14, "test": 2}.items():
        lines = (bayesian / "predictions" / f"{name}.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        assert list(found[0]) == [*columns, "prediction_set", "num_samples", "truncated"]
        want = predictor([row["text"] for row in found])
        assert len(want) == number
        assert [row["prediction"] for row in found] == [result.label for result in want]
        for column in columns[4:]:
            expected = [getattr(result, column) for result in want]
            assert [row[column] for row in found] == pytest.approx(expected, abs=1e-5)
        assert found[0]["num_samples"] == 3
    with (data_folder / "validation.csv").open() as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    rows = (bayesian / "predictions" / "validation.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in rows] == labels


def test_files(bayesian):
    names = {str(path.relative_to(bayesian)) for path in bayesian.rglob("*") if path.is_file()}
    assert names >= {"config.yaml", "log.jsonl", "results.json", "report/validation/report.html"}
    assert names >= {
        f"model/{name}" for name in ("bam.safetensors", "model.safetensors", "tokenizer.json", "README.md")
    }
    assert "predictions/custom-test.tsv" in names
    assert not any(name.startswith("checkpoints") for name in names)
    card = (bayesian / "model" / "README.md").read_text()
    assert "BAM, 3 samples + temperature" in card
    assert "validation accuracy" in card
    figures = {path.name for path in (bayesian / "report" / "validation" / "figures").iterdir()}
    assert set(re.findall(r"\(figures/(.*?)\)", card)) == figures
    assert {path.name for path in (bayesian / "model" / "figures").iterdir()} == figures
    assert not (bayesian / "model" / ".eval_results").exists()  # the data are not those of the Hub


def test_a_run_from_its_config_is_the_same(bayesian, tmp_path):
    assert main(["custom", "--config", str(bayesian / "config.yaml"), *NO_SAMPLES, "--output", str(tmp_path)]) == 0
    one, other = (load_file(folder / "model" / "model.safetensors") for folder in (bayesian, tmp_path))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert read_yaml(tmp_path / "config.yaml") == {**read_yaml(bayesian / "config.yaml"), "num_samples": 0}


def test_a_finished_run_is_not_repeated(bayesian, custom, capsys):
    before = (bayesian / "results.json").stat().st_mtime_ns
    again = ["custom", *custom, *SHORT, "--samples", "3", "--output", str(bayesian), "--resume"]
    assert main([*again, "--lr", "1e-3"]) == 2
    assert "was made with learning_rate=0.01, and this run has 0.001" in capsys.readouterr().err
    assert main([*again, "--k", "2"]) == 0
    assert "is already finished" in capsys.readouterr().out
    assert (bayesian / "results.json").stat().st_mtime_ns == before


def test_plain_attention(custom, tmp_path):
    assert main(["custom", *custom, *SHORT, *NO_SAMPLES, "--output", str(tmp_path), "--attention", "plain"]) == 0
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert not hf_bam.is_patched(model)
    assert not (tmp_path / "model" / "bam.safetensors").exists()
    assert results(tmp_path)["uncertainty"] == {}
    assert results(tmp_path)["scores"]["validation"]["accuracy"] > 0.9


def test_adapters(custom, model_folder, tmp_path):
    """Queries and values have adapters; of the other weights only the prior and the classifier change."""
    assert main(["custom", *custom, *SHORT, *NO_SAMPLES, "--output", str(tmp_path), "--lora", "--epochs", "8"]) == 0
    assert results(tmp_path)["scores"]["validation"]["accuracy"] > 0.9
    load = AutoModelForSequenceClassification.from_pretrained
    before, after = (load(folder).state_dict() for folder in (model_folder, tmp_path / "model"))
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[-2] for name in changed} == {"query", "value", "classifier"}
    merged = hf_bam.from_pretrained(tmp_path / "model").eval()
    adapted = hf_bam.from_pretrained(tmp_path / "adapter").eval()
    assert isinstance(adapted, PeftModel)
    batch = {"input_ids": torch.tensor([[101, 2204, 2143, 102]])}
    torch.testing.assert_close(adapted(**batch).logits, merged(**batch).logits)
    priors = [
        {n: p for n, p in m.named_parameters() if ".bam.prior." in n and "original" not in n}
        for m in (merged, adapted)
    ]
    for one, other in zip(*(own.values() for own in priors), strict=True):
        torch.testing.assert_close(one, other)


def test_seeds(custom, tmp_path, capsys):
    short = ["--max_steps", "2", *NO_SAMPLES, "--output", str(tmp_path), "--seeds", "0", "1", "2"]
    assert main(["custom", *custom, "--recipe", "fast", *short]) == 0
    scores = [results(tmp_path / "custom" / f"seed-{seed}")["scores"]["validation"]["accuracy"] for seed in range(3)]
    summary = json.loads((tmp_path / "summary.json").read_text())
    (row,) = (row for row in summary if row["score"] == "accuracy")
    assert (row["task"], row["set"], row["runs"]) == ("custom", "validation", 3)
    assert row["mean"] == pytest.approx(statistics.mean(scores))
    assert row["std"] == pytest.approx(statistics.stdev(scores))
    assert "summary.json" in capsys.readouterr().out


def test_limit(custom, tmp_path):
    short = ["--max_steps", "1", *NO_SAMPLES, "--limit", "6", "--output", str(tmp_path)]
    assert main(["custom", *custom, *short]) == 0
    assert results(tmp_path)["rows"] == {"train": 6, "validation": 6, "test": 2}


def test_held_out_rows_select_the_checkpoint(custom, tmp_path):
    short = ["--max_steps", "2", "--eval_steps", "1", *NO_SAMPLES, "--output", str(tmp_path)]
    assert main(["custom", *custom, *short, "--holdout", "9"]) == 0
    found = results(tmp_path)
    assert found["rows"] == {"train": 35, "holdout": 9, "validation": 14, "test": 2}
    assert found["best"]["scores"] == found["scores"]["holdout"]
    assert main(["custom", *custom, *short, "--holdout", "44"]) == 2


def test_push(custom, tmp_path, hub):
    """Push to a local Hub and load from there."""
    short = ["--max_steps", "1", *NO_SAMPLES, "--output", str(tmp_path), "--push_to_hub", "--hub_model_id", "me/films"]
    assert main(["custom", *custom, "--recipe", "fast", *short]) == 0
    batch = {"input_ids": torch.tensor([[101, 2204, 2143, 102]])}
    pushed, kept = (hf_bam.from_pretrained(place) for place in ("me/films", tmp_path / "model"))
    assert torch.equal(pushed(**batch).logits, kept(**batch).logits)


def test_texts_longer_than_the_positions_of_the_model(start, tmp_path, capsys):
    """They are an error before training, also if only rows without labels are too long."""
    for name, rows in {"train": 1, "validation": 1, "test": 80}.items():
        labels = "" if name == "test" else ",label"
        lines = [f"{'film ' * rows}{label and ','}{label}" for label in ("", "") if name == "test"] or [
            f"{word} film,{word}" for word in ("good", "bad") * 8
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"text{labels}", *lines, ""]))
    assert start("--data_dir", str(tmp_path), "--max_length", "100") == 2
    expected = "has positions for 64 tokens, and the set test has inputs of 82; give max_length=64 or less"
    assert expected in capsys.readouterr().err
    assert not start.folder.exists()
    assert start("--data_dir", str(tmp_path), "--max_length", "64") == 0
