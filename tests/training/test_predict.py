"""`hf-bam predict` on tiny models, against predictors."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
import torch
from datasets import Dataset, DatasetDict
from transformers import BertForQuestionAnswering

import hf_bam
from hf_bam.cli import main
from hf_bam.prediction import BamPredictor, Predictor
from hf_bam.training.predict.workers import in_order

from ..models import PAD, bert, marian
from .conftest import WORDS

LABELS = ["bad", "good"]
TEXTS = [f"{LABELS[i % 2]} {' '.join(WORDS[j % 8] for j in range(i, i + 1 + i % 5))}" for i in range(40)]
NEW = ["prediction", "probability", "std", "entropy", "aleatoric", "epistemic"]


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """Folder of a predictor with novelty and prediction sets."""
    torch.manual_seed(0)
    model = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3, hidden_size=16)
    model.config.id2label, model.config.label2id = dict(enumerate(LABELS)), {name: i for i, name in enumerate(LABELS)}
    predictor = BamPredictor(hf_bam.patch(model, k=1.0), tokenizer, num_samples=3, progress=False)
    labels = [i % 2 for i in range(40)]
    predictor.fit(TEXTS, labels, false_alarms=0.3).conformal(TEXTS, labels, alpha=0.2)
    path = tmp_path_factory.mktemp("predictor")
    predictor.save_pretrained(path)
    return str(path)


def predict(model, source, output, *options):
    return main(["predict", "--model", str(model), "--input", str(source), "--output", str(output), *options])


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def table(tmp_path):
    """Rows of which one has no text."""
    rows = [{"id": f"0{i}", "text": text, "label": "?"} for i, text in enumerate(TEXTS)]
    return write_csv(tmp_path / "in.csv", [*rows[:5], {"id": "x", "text": " ", "label": ""}, *rows[5:]])


def test_a_table(folder, table, tmp_path, capsys):
    """Rows keep their order and their columns, and have the predictions of the saved predictor."""
    assert predict(folder, table, tmp_path / "out.csv") == 0
    printed = capsys.readouterr().out
    assert "classification, Bayesian attention, 3 samples, on cpu; prediction sets coverage of at least 0.8" in printed
    assert "1 without a text and so without a prediction (line 7)" in printed
    frame = pd.read_csv(tmp_path / "out.csv", dtype={"id": str}, keep_default_na=False)
    assert list(frame.columns[:3]) == ["id", "text", "label"]
    assert frame["id"].tolist()[4:7] == ["04", "x", "05"]
    assert set(frame.loc[5, NEW]) == {""}
    rows = frame.drop(index=5)
    want = BamPredictor.from_pretrained(folder, progress=False)(TEXTS).to_pandas()
    assert rows["prediction"].tolist() == want["prediction"].tolist()
    for name in [*NEW[1:], "novelty", "novelty_percentile"]:
        assert rows[name].astype(float).tolist() == pytest.approx(want[name].tolist(), rel=1e-4, abs=1e-6)
    assert rows["prediction_set"].map(json.loads).tolist() == want["prediction_set"].tolist()
    assert rows["in_distribution"].tolist() == want["in_distribution"].map(str).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_many_rows_without_a_text_at_the_beginning(folder, tmp_path, ending):
    """The columns of the output are those of a prediction, also when the first parts have none."""
    source = write_csv(tmp_path / "in.csv", [{"text": text} for text in [*[" "] * 20, *TEXTS[:3]]])
    assert predict(folder, source, tmp_path / f"out.{ending}", "--batch_size", "1") == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    frame = read(tmp_path / f"out.{ending}")
    assert frame["probability"].isna().tolist() == [True] * 20 + [False] * 3


def test_formats_give_the_same_predictions(folder, tmp_path):
    texts = TEXTS[:6]
    rows = [{"sentence": text, "n": i} for i, text in enumerate(texts)]
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pd.DataFrame(rows).to_parquet(tmp_path / "c.parquet")
    (tmp_path / "d.txt").write_text("\n".join(texts))
    (tmp_path / "hub").mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / "hub" / "test.parquet")
    Dataset.from_list(rows).save_to_disk(tmp_path / "one")
    DatasetDict({"train": Dataset.from_list(rows[:1]), "test": Dataset.from_list(rows)}).save_to_disk(tmp_path / "two")
    options = {"d.txt": [], "two": ["--text_column", "sentence", "--split", "test"]}
    found = {}
    for name in ("a.csv", "b.jsonl", "c.parquet", "d.txt", "hub", "one", "two"):
        output = tmp_path / f"{name.replace('.', '-')}.parquet"
        assert predict(folder, tmp_path / name, output, *options.get(name, ["--text_column", "sentence"])) == 0
        found[name] = pd.read_parquet(output)
    for frame in found.values():
        assert frame["probability"].tolist() == found["a.csv"]["probability"].tolist()
    assert found["c.parquet"]["n"].tolist() == list(range(6))
    assert predict(folder, tmp_path / "d.txt", tmp_path / "out.txt", "--limit", "2") == 0
    assert (tmp_path / "out.txt").read_text().split() == found["d.txt"]["prediction"].tolist()[:2]


def test_standard_output_is_json_lines(folder, tmp_path, capsys):
    (tmp_path / "in.txt").write_text(TEXTS[0])
    arguments = ["predict", "--model", folder, "--input", str(tmp_path / "in.txt"), "--num_samples", "2"]
    assert main([*arguments, "--prefix", "bam_"]) == 0
    captured = capsys.readouterr()
    row = json.loads(captured.out)
    assert (row["text"], row["bam_num_samples"]) == (TEXTS[0], 2)
    assert "bam_prediction_set" not in row  # it was fitted for another number of samples
    assert "2 samples" in captured.err


def test_fits_to_files(model_folder, tmp_path, capsys):
    """A plain model, with dropout, novelty and prediction sets from files."""
    rows = [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS)]
    held_out = write_csv(tmp_path / "held_out.csv", rows)
    source = write_csv(tmp_path / "in.csv", [{"text": text, "text_pair": text} for text in TEXTS[:3]])
    fits = ["--train", str(held_out), "--held_out", str(held_out), "--alpha", "0.2", "--dropout", "0.2"]
    pair = ["--pair_column", "text"]
    assert predict(model_folder, source, tmp_path / "pair.jsonl", *pair) == 0
    source = write_csv(tmp_path / "in.csv", [{"text": text} for text in TEXTS[:3]])
    assert predict(model_folder, source, tmp_path / "out.jsonl", *fits, "--num_samples", "3") == 0
    assert "MC dropout, 3 samples" in capsys.readouterr().out
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {"novelty", "in_distribution", "prediction_set"} <= found[0].keys()
    assert found[0]["epistemic"] > 0
    want = Predictor.from_pretrained(model_folder, progress=False)([(text, text) for text in TEXTS[:3]])
    pairs = [json.loads(line) for line in (tmp_path / "pair.jsonl").read_text().splitlines()]
    assert [row["probability"] for row in pairs] == pytest.approx([result.probability for result in want], abs=1e-6)


def test_questions_and_translations(tokenizer, single_tokenizer, tmp_path):
    reader = BertForQuestionAnswering(bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3).config)
    BamPredictor(hf_bam.patch(reader), tokenizer, num_samples=2).save_pretrained(tmp_path / "qa")
    source = write_csv(tmp_path / "qa.csv", [{"question": "what?", "context": "a film of rare beauty"}])
    assert predict(tmp_path / "qa", source, tmp_path / "qa.jsonl") == 0
    row = json.loads((tmp_path / "qa.jsonl").read_text())
    assert row["prediction"] == row["context"][row["start"] : row["end"]]
    translator = hf_bam.patch(marian(vocab_size=len(single_tokenizer), init_std=0.5), k=1.0)
    options = {"num_samples": 2, "generation": {"max_new_tokens": 4, "pad_token_id": PAD}}
    BamPredictor(translator, single_tokenizer, **options).save_pretrained(tmp_path / "mt")
    source = write_csv(tmp_path / "mt.csv", [{"text": "a film", "german": "ein Film"}])
    for name, own in {"new.jsonl": [], "given.jsonl": ["--target_column", "german"]}.items():
        assert predict(tmp_path / "mt", source, tmp_path / name, *own) == 0
    rows = [json.loads((tmp_path / name).read_text()) for name in ("new.jsonl", "given.jsonl")]
    want = BamPredictor.from_pretrained(tmp_path / "mt", progress=False).score_targets("a film", "ein Film")[0]
    assert rows[1]["prediction"] == "ein Film"
    assert rows[1]["log_probability"] == pytest.approx(want.log_probability, rel=1e-5)
    assert [token["text"] for token in rows[1]["tokens"]] == [token.text for token in want.tokens]
    assert rows[0]["epistemic"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text_column", "review"], "in.csv, line 2: expected a column 'review'"),
        (["--output", "out.xlsx"], "another ending than"),
        (["--output", "in.csv"], "in.csv exists; add --overwrite"),
        (["--input", "none.csv"], "none.csv: there is no such file"),
        (["--input", "none.bin"], "none.bin: there is no such file or folder"),
        (["--input", "sets"], "has the splits a, b; choose one with --split"),
        (["--input", "/"], "/ cannot be loaded: it is neither a file"),
        (["--input", "damaged"], "damaged cannot be loaded: it is neither a file"),
        (["--input", "script"], "script cannot be loaded: it is neither a file"),
        (["--input", "torn"], "torn, row 1: expected a row: "),
        (["--input", "half.jsonl"], "half.jsonl, line 1: expected Unicode text"),
    ],
)
def test_errors(folder, table, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    Path("half.jsonl").write_text(r'{"text": "\ud800"}')
    files = {"damaged": "dataset_dict.json", "script": "script.py", "torn": "a.csv"}
    for name, content in {"damaged": "[]", "script": "open('ran', 'w')", "torn": 'text\n"a'}.items():
        Path(name).mkdir()
        Path(name, files[name]).write_text(content)
    one = Dataset.from_dict({"text": ["a"]})
    if "sets" in options:
        DatasetDict({"a": one, "b": one}).save_to_disk("sets")
    assert main(["predict", "--model", folder, "--input", "in.csv", "--output", "out.csv", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("ran").exists()


def test_names_that_the_hub_does_not_have(folder, table, tmp_path, hub, capsys):
    assert predict("somebody/nothing", table, tmp_path / "out.csv") == 2
    assert "model_name_or_path='somebody/nothing' cannot be loaded" in capsys.readouterr().err


def test_columns_of_predictions_are_not_overwritten(folder, tmp_path, capsys):
    source = write_csv(tmp_path / "in.csv", [{"text": "a film", "entropy": "1"}])
    assert predict(folder, source, tmp_path / "out.csv") == 2
    assert "has a column 'entropy', which a prediction has too" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    assert predict(folder, source, tmp_path / "out.csv", "--prefix", "bam_") == 0


def test_parts_come_in_order_and_are_not_read_ahead():
    read = []

    def parts():
        for i in range(20):
            read.append(i)
            yield i, (i,)

    with ThreadPoolExecutor(3) as pool:
        for index, (part, done) in enumerate(in_order(pool, lambda x: x * x, parts(), ahead=4)):
            assert (part, done) == (index, index**2)
            assert len(read) <= index + 6


@pytest.mark.slow
def test_several_processes_write_the_same_file(folder, table, tmp_path):
    assert predict(folder, table, tmp_path / "one.csv", "--batch_size", "1") == 0
    assert predict(folder, table, tmp_path / "two.csv", "--batch_size", "1", "--num_processes", "2") == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
