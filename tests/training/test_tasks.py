"""Scripts of all kinds of tasks, on tiny data and with tiny models."""

import json
import runpy
from pathlib import Path

import pytest

import hf_bam
from hf_bam.cli import main

SCRIPTS = Path(__file__).parents[2] / "scripts"
SAMPLES = ["--consistency", 0.5, "--num_train_samples", 2]
SHORT = ["--recipe", "fast", "--max_steps", "3", "--batch_size", "4", "--samples", "2", "--no_report"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Function that runs a script and returns its results and its folder."""

    def start(script, *arguments):
        path = str(SCRIPTS / f"{script}.py")
        monkeypatch.setattr("sys.argv", [path, *map(str, arguments), *SHORT, "--output", str(tmp_path)])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(path, run_name="__main__")
        assert stop.value.code == 0
        found = json.loads((tmp_path / "results.json").read_text())
        check_evaluation(tmp_path, found)
        return found, tmp_path

    return start


def check_evaluation(folder, found):
    """Check that `hf-bam evaluate` measures the saved model as the run did, on the data of the run."""
    options = ["--eval_limit", "12", "--no_report", "--output_dir", str(folder / "again")]
    assert main(["evaluate", "--model_name_or_path", str(folder / "model"), *options]) == 0
    sets = json.loads((folder / "again" / "comparison.json").read_text())["sets"]
    assert {name: own["scores"] for name, own in sets.items()} == {
        name: pytest.approx(own, abs=1e-4) for name, own in found["scores"].items()
    }
    for name, table in found["uncertainty"].items():
        for row, again in zip(table, sets[name]["table"], strict=True):
            assert row.keys() == again.keys()
            for measure in row.keys() - {"method", "seconds"}:
                assert again[measure] == (pytest.approx(row[measure], abs=1e-4) if row[measure] is not None else None)


def question(number, answered=True):
    context = f"The film number {number} was made in Rome by a poet."
    answers = [{"text": "Rome", "answer_start": context.index("Rome")}] if answered else []
    return {"context": context, "qas": [{"id": f"q{number}", "question": "Where?", "answers": answers}]}


@pytest.mark.parametrize(("version", "exact", "options"), [("1.1", "exact_match", []), ("2.0", "exact", SAMPLES)])
def test_squad(version, exact, options, run, model_folder, tmp_path):
    for name, numbers in {"train": range(9), "dev": range(9, 14)}.items():
        paragraphs = [question(number, version == "1.1" or number % 2 == 0) for number in numbers]
        content = json.dumps({"version": version, "data": [{"title": "films", "paragraphs": paragraphs}]})
        (tmp_path / f"{name}-v{version}.json").write_text(content)
    found, folder = run(
        "run_squad",
        "--version",
        version,
        "--model",
        model_folder,
        "--data_dir",
        tmp_path,
        "--max_length",
        32,
        *options,
    )
    assert found["task"] == f"squad-{version}"
    assert {exact, "f1"} <= found["scores"]["dev"].keys()
    mean, drawn = found["uncertainty"]["dev"]
    assert (mean["method"], drawn["method"]) == ("mean attention", "BAM, 2 samples")
    assert mean[exact] == found["scores"]["dev"][exact]  # the results of the evaluation are measured
    assert drawn["entropy"] > 0
    answers = json.loads((folder / "predictions" / "predictions.json").read_text())
    assert answers.keys() == {f"q{number}" for number in range(9, 14)}
    assert hf_bam.is_patched(hf_bam.from_pretrained(folder / "model"))


def test_translation(run):
    languages = ["--dataset", "language", "--source", "en", "--target", "qaa", "--limit", 12]
    sizes = ["--vocabulary", 120, "--width", 16, "--heads", 2, "--layers", 1, "--max_target_length", 12]
    found, folder = run("run_translation", *languages, *sizes, "--num_beams", 2, *SAMPLES)
    assert found["task"] == "en-qaa"
    assert {"bleu", "chrf", "ter"} == found["scores"]["test"].keys()
    assert found["uncertainty"]["test"][1]["entropy"] > 0
    assert len((folder / "predictions" / "test.qaa").read_text().splitlines()) == 12
    model = hf_bam.from_pretrained(folder / "model")
    stochastic = [name for name, _ in model.named_parameters() if ".bam.prior." in name]
    assert {".encoder.", ".decoder."} == {
        part for part in (".encoder.", ".decoder.") if any(part in n for n in stochastic)
    }
    assert any("encoder_attn" in name for name in stochastic)


@pytest.mark.parametrize("model", ["recurrent", "scratch"])
@pytest.mark.parametrize(
    "family", [["categorical", "--objective", "variational", "--top_k", 3], ["dirichlet"]], ids=str
)
def test_translation_with_a_latent_alignment(run, model, family):
    languages = ["--dataset", "language", "--source", "en", "--target", "qaa", "--limit", 12]
    sizes = ["--vocabulary", 120, "--width", 16, "--heads", 2, "--layers", 1, "--max_target_length", 12]
    found, folder = run("run_translation", "--model", model, *languages, *sizes, "--num_beams", 2, "--family", *family)
    assert found["uncertainty"]["test"][1]["entropy"] > 0
    trained = hf_bam.from_pretrained(folder / "model")
    assert hf_bam.get_config(trained).family == family[0]
    assert any(".bam.inference.bilinear" in name for name, _ in trained.named_parameters())


def test_glue(run, model_folder, tmp_path):
    """RTE in the official layout, with a test set."""
    texts = [f"{i}\tA film of {i} hours.\tIt is long." for i in range(12)]
    labels = ["entailment" if i % 2 else "not_entailment" for i in range(12)]
    header = "index\tsentence1\tsentence2"
    folder = tmp_path / "RTE"
    folder.mkdir()
    labelled = [f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)]
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("\n".join([f"{header}\tlabel", *labelled]) + "\n")
    (folder / "test.tsv").write_text("\n".join([header, *texts[:5]]) + "\n")
    found, output = run("run_glue", "--task", "rte", "--model", model_folder, "--data_dir", tmp_path)
    mean, drawn, *_ = found["uncertainty"]["dev"]
    assert (mean["method"], drawn["method"]) == ("mean attention", "BAM, 2 samples")
    assert mean["accuracy"] == found["scores"]["dev"]["accuracy"]  # the results of the evaluation are measured
    lines = (output / "predictions" / "RTE.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert len(lines) == 6


def test_regression(run, model_folder, tmp_path):
    for name in ("train", "validation"):
        rows = [json.dumps({"text": f"{'good ' * (i % 5)}film", "stars": i % 5}) for i in range(12)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    columns = ["--text_column", "text", "--label_column", "stars", "--regression"]
    options = ["--model", model_folder, "--data_dir", tmp_path, *columns, *SAMPLES]
    found, _ = run("run_glue", "--task", "custom", *options)
    mean, drawn = found["uncertainty"]["validation"]
    assert mean["pearson"] == pytest.approx(found["scores"]["validation"]["pearson"], abs=1e-4)
    assert drawn["crps"] > 0
    assert drawn["passes"] == 2
