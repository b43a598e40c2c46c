"""scripts/quickstart.py on a tiny model and a few sentences of each domain."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

import hf_bam
from hf_bam.cli import main
from hf_bam.tasks import sentiment
from hf_bam.tasks.sentiment import Sentence

from .training.conftest import model_folder  # noqa: F401  (a fixture)


@pytest.fixture
def script():
    path = Path(__file__).parents[1] / "scripts" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sentences(monkeypatch):
    """Sentences instead of the archive: the first word gives the label, and people disagree about two words."""

    def load(archive, domain):
        words = [("good", 2.0, 0.1), ("bad", -2.0, 0.1), ("good bad", 0.5, 2.0)]
        return [Sentence(f"{w} {domain} {i}", r, d + i / 100) for i in range(60) for w, r, d in words]

    monkeypatch.setattr(sentiment, "download", lambda cache: cache)
    monkeypatch.setattr(sentiment, "load", load)


def test_both_models_are_trained_and_compared(script, sentences, model_folder, tmp_path, capsys):  # noqa: F811
    limits = ["--max_steps", "60", "--lr", "1e-2", "--samples", "3", "--eval_limit", "30", "--uncertainty_rows", "30"]
    script.main(["--model", str(model_folder), "--output", str(tmp_path), *limits, "--no_report"])
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert {"--- plain finetuning ---", "--- Bayesian attention ---"} <= set(lines)
    (top,) = (i for i, line in enumerate(lines) if line.startswith("method "))
    table = [re.split(r"\s{2,}", line) for line in lines[top : top + 9]]
    methods = ["plain", "MC dropout, 3 samples", "mean attention", "BAM, 3 samples"]
    assert [row[0] for row in table[1:]] == [name + end for end in ("", " + temperature") for name in methods]
    for row in table[1:]:
        values = dict(zip(table[0], row, strict=True))
        assert float(values["accuracy"].split()[0]) > 0.6
        assert float(values["set_coverage"]) > 0.7
    recommended = re.search(r"--- (.*), recommended by the \d+ held-out sentences ---", text).group(1)
    assert recommended.removesuffix(" + temperature") in methods
    assert re.search(r"Novelty: \d+ % of the test set", text)
    (top,) = (i for i, line in enumerate(lines) if line.startswith("domain "))
    assert [line.split()[0] for line in lines[top + 1 : top + 4]] == ["products", "news", "tweets"]
    assert lines[-3].endswith("So bad it is good.")
    assert lines[-1] == f"Saved with all of this: {tmp_path / 'predictor'}"
    (tmp_path / "own.txt").write_text("good one\nbad one\n")
    assert main(["predict", "--model", str(tmp_path / "predictor"), "--input", str(tmp_path / "own.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [row["prediction"] for row in rows] == ["positive", "negative"]
    assert all(row["prediction_set"] is not None and 0 <= row["novelty_percentile"] <= 1 for row in rows)
    script.main(["--model", str(model_folder), "--output", str(tmp_path), *limits, "--no_report", "--max_steps", "2"])
    for options, words in ((["--resume"], "resume: the quickstart"), (["--seeds", "0", "1"], "seeds: the quickstart")):
        with pytest.raises(ValueError, match=words):
            script.main(["--output", str(tmp_path), *options])
    assert hf_bam.is_patched(hf_bam.from_pretrained(tmp_path / "bam" / "model"))
