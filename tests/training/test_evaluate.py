"""`hf-bam evaluate` on a tiny model, against the model itself, scikit-learn and the predictors."""

import csv
import json
import re

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForQuestionAnswering

import hf_bam
from hf_bam.cli import main
from hf_bam.prediction import Plain, Predictor
from hf_bam.training.evaluate.command import parse

from ..models import bert
from .conftest import WORDS

NAMES = ["bad", "good"]


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def reviews(number, seed):
    """Return rows of text and label, of which the first word is the label for three of four."""
    random = np.random.default_rng(seed)
    for _ in range(number):
        label = int(random.integers(2))
        first = NAMES[label] if random.random() < 0.75 else NAMES[1 - label]
        yield {"text": " ".join([first, *random.choice(WORDS, size=3)]), "label": NAMES[label]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files by the option that names them."""
    folder = tmp_path_factory.mktemp("files")
    sizes = {"data": 40, "held_out": 30, "train": 60}
    made = {name: write_rows(folder / f"{name}.csv", list(reviews(n, n))) for name, n in sizes.items()}
    ood = write_rows(folder / "ood.csv", [{"text": f"rates of the bank {i}"} for i in range(10)])
    return {**made, "ood": ood}


def save(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    """Folder of a patched model with names for its classes."""
    torch.manual_seed(0)
    made = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.2)
    made.config.id2label, made.config.label2id = dict(enumerate(NAMES)), {name: i for i, name in enumerate(NAMES)}
    return save(hf_bam.patch(made, k=1.0), tokenizer, tmp_path_factory.mktemp("patched"))


def evaluate(output, *options, **named):
    """Run the command and return comparison.json."""
    named = [part for name, value in named.items() for part in (f"--{name}", str(value))]
    code = main(["evaluate", *named, *options, "--output_dir", str(output)])
    return json.loads((output / "comparison.json").read_text()) if code == 0 else code


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_own_files(model, files, tmp_path, capsys):
    found = evaluate(tmp_path, model_name_or_path=model, num_samples=3, **files)
    assert found["held_out"] == files["held_out"]
    (own,) = found["sets"].values()
    methods = ["mean attention", "BAM, 3 samples"]
    assert [row["method"] for row in own["table"]] == [*methods, *(f"{name} + temperature" for name in methods)]
    rows = read(files["data"])
    texts, labels = [row["text"] for row in rows], [NAMES.index(row["label"]) for row in rows]
    predictor = hf_bam.BamPredictor.from_pretrained(model, num_samples=3)
    plain = Predictor(Plain(predictor.sampler.model), predictor.tokenizer)
    for row, method in zip(own["table"], (plain, predictor), strict=False):
        mean = method(texts).samples.mean(axis=0)
        assert row["accuracy"] == accuracy_score(labels, mean.argmax(axis=-1))
        assert row["nll"] == pytest.approx(log_loss(labels, mean), abs=1e-5)
    train, held_out = read(files["train"]), [row["text"] for row in read(files["held_out"])]
    plain.fit([row["text"] for row in train], [row["label"] for row in train], held_out=held_out)
    known, other = (plain.ood_scores(own)["novelty"] for own in (texts, [row["text"] for row in read(files["ood"])]))
    expected = roc_auc_score([0] * len(known) + [1] * len(other), [*known, *other])
    assert [row["novelty_auroc"] for row in own["table"]] == pytest.approx([expected] * 4)
    assert [row["passes"] for row in own["table"]] == [1, 4, 1, 4]
    temperature = plain.calibrated(held_out, [row["label"] for row in read(files["held_out"])])
    assert own["table"][2]["nll"] == pytest.approx(log_loss(labels, temperature(texts).samples[0]), abs=1e-4)
    assert all(0.7 <= row["set_coverage"] <= 1 for row in own["table"])
    printed = " ".join(capsys.readouterr().out.split())
    assert own["recommendation"].startswith("Use ")
    assert own["recommendation"] in printed
    assert (tmp_path / "report" / "data" / "report.html").exists()
    lines = (tmp_path / "predictions" / "data.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts
    assert {"prediction", "probability", "entropy", "novelty", "prediction_set"} <= json.loads(lines[0]).keys()
    predictions = (tmp_path / "predictions" / "custom-data.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in predictions] == [result.label for result in plain(texts)]


def test_a_plain_model_without_names(tokenizer, files, tmp_path):
    """Labels are indices, in JSON lines with other columns; samples come from dropout."""
    folder = save(bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.2), tokenizer, tmp_path / "model")
    lines = [json.dumps({"review": row["text"], "stars": NAMES.index(row["label"])}) for row in read(files["data"])]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    columns = {"text_column": "review", "label_column": "stars"}
    options = ["--no_report", "--eval_limit", "20"]
    found = evaluate(tmp_path, *options, model=folder, data=tmp_path / "mine.jsonl", samples=2, **columns)
    table = found["sets"]["mine"]["table"]
    assert [row["method"] for row in table][:2] == ["plain", "MC dropout, 2 samples"]
    assert "novelty_auroc" not in table[0]
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = [json.loads(line) for line in lines[::2]]  # evenly spaced
    encoded = AutoTokenizer.from_pretrained(folder)([row["review"] for row in rows], return_tensors="pt", padding=True)
    with torch.inference_mode():
        probabilities = network(**encoded).logits.double().softmax(-1)
    assert table[0]["nll"] == pytest.approx(log_loss([row["stars"] for row in rows], probabilities), abs=1e-5)
    assert not (tmp_path / "report").exists()


def test_classes_of_the_model_in_another_order(tokenizer, files, tmp_path):
    """A set of the task has the classes in alphabetical order; the model has them in another one, capitalised."""
    model = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.2)
    model.config.id2label = {0: "GOOD", 1: "BAD"}
    folder = save(model, tokenizer, tmp_path / "model")
    for name in ("train", "validation"):
        write_rows(tmp_path / f"{name}.csv", read(files["data"]))
    options = {"task_name": "custom", "data_dir": tmp_path, "data": "validation", "samples": 1}
    found = evaluate(tmp_path / "out", "--no_report", model=folder, **options)
    rows = read(files["data"])
    predictor = Predictor(Plain(model), tokenizer)
    right = [
        result.label.lower() == row["label"]
        for result, row in zip(predictor([row["text"] for row in rows]), rows, strict=True)
    ]
    assert found["sets"]["validation"]["table"][0]["accuracy"] == np.mean(right)
    assert found["sets"]["validation"]["scores"]["accuracy"] == np.mean(right)
    assert len(found["sets"]["validation"]["table"]) == 2  # no samples


def test_saved_novelty(model, files, tmp_path):
    """The novelty that was saved with the model is used, unless there is a training set."""
    rows = read(files["train"])
    predictor = hf_bam.BamPredictor.from_pretrained(model, num_samples=2)
    predictor.fit([row["text"] for row in rows], false_alarms=0.5).save_pretrained(tmp_path / "model")
    options = {"data": files["data"], "ood": files["ood"], "samples": 2}
    found = evaluate(tmp_path, "--no_report", model=tmp_path / "model", **options)["sets"]["data"]["table"]
    known, other = (
        predictor.ood_scores([row["text"] for row in read(files[key])])["novelty"] for key in ("data", "ood")
    )
    expected = roc_auc_score([0] * len(known) + [1] * len(other), [*known, *other])
    assert found[0]["novelty_auroc"] == pytest.approx(expected)


def test_sets_without_labels(model, files, tmp_path, capsys):
    for name in ("train", "validation"):
        write_rows(tmp_path / f"{name}.csv", read(files["data"]))
    write_rows(tmp_path / "test.csv", [{"text": "good film"}])
    options = {"model": model, "task_name": "custom", "data_dir": tmp_path, "samples": 1}
    for changes in ({"data": "test"}, {"held_out": "test"}):
        assert evaluate(tmp_path, **options, **changes) == 2
        assert "The rows of test have no labels; choose a labelled set or file." in capsys.readouterr().err
    assert evaluate(tmp_path, "--no_report", **options, ood="test")["sets"].keys() == {"validation"}


def test_the_settings_of_the_run_are_defaults(tmp_path):
    (tmp_path / "model").mkdir()
    settings = {"task_name": "sentiment", "max_length": 64, "num_samples": 5, "limit": 3, "data_dir": "somewhere"}
    lines = [*(f"{name}: {value}" for name, value in settings.items()), "options: {domain: news}"]
    (tmp_path / "config.yaml").write_text("\n".join(lines))
    model = ["--model_name_or_path", str(tmp_path / "model")]
    job, _, _ = parse(model)
    assert (job.task_name, job.options, job.data_dir, job.limit) == (
        "sentiment",
        {"domain": "news"},
        "somewhere",
        None,
    )
    assert (job.recipe.max_length, job.recipe.num_samples) == (64, 5)
    job, _, _ = parse([*model, "--domain", "tweets", "--samples", "7"])
    assert (job.options, job.recipe.num_samples) == ({"domain": "tweets"}, 7)
    job, _, _ = parse([*model, "--data", "mine.csv"])  # a file is of another task, without its options
    assert (job.task_name, job.data_dir, job.recipe.max_length) == ("custom", None, 64)
    assert job.options == {"text_column": "text", "label_column": "label"}


ERRORS = [
    ({"model": None}, "--model_name_or_path is not given"),
    ({"model": "./nowhere"}, "model_name_or_path='./nowhere' cannot be loaded"),
    ({"model": "minilm"}, "model_name_or_path='minilm' is not trained for custom: it has no classifier.bias."),
    ({"data": None}, "There are no data to evaluate on: give --data with a file (.csv, "),
    ({"data": "mine.txt"}, "There are no data to evaluate on: give --data with a file (.csv, "),
    ({"data": "nowhere.csv"}, "nowhere.csv: there is no such file."),
    ({"label_column": "stars"}, "expected a column 'stars'"),
    ({"ood": "mine.txt"}, "'mine.txt' is neither a file with rows (.csv, .tsv, .json, .jsonl, .parquet) nor a set of"),
    ({"alpha": 2}, "alpha=2 is not valid"),
    ({"samples": "many"}, "num_samples='many' is not valid"),
    ({"task_name": "sentiment", "text_column": "a"}, "'text_column' is not an option of sentiment"),
]


@pytest.mark.parametrize(("changes", "words"), ERRORS, ids=[str(changes) for changes, _ in ERRORS])
def test_errors_are_one_line(changes, words, model, files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"model": model, "data": files["data"], "samples": 1, **changes}
    options = {name: value for name, value in options.items() if value is not None}
    assert evaluate(tmp_path / "out", **options) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_labels_that_the_model_does_not_have(model, tmp_path, capsys):
    data = write_rows(
        tmp_path / "own.csv", [{"text": "good film", "label": "good"}, {"text": "film", "label": "fair"}]
    )
    assert evaluate(tmp_path, model=model, data=data) == 2
    assert (
        "own.csv, line 3: expected a class of the training file (bad, good), found 'fair'" in capsys.readouterr().err
    )
    for name in ("train", "validation"):
        write_rows(tmp_path / f"{name}.csv", read(data))
    assert evaluate(tmp_path, model=model, task_name="custom", data_dir=tmp_path) == 2
    assert "The model has the classes bad, good; the data have fair, good." in capsys.readouterr().err


def test_an_earlier_evaluation_is_replaced_on_request(model, files, tmp_path, capsys):
    options = {"model": model, "data": files["data"], "samples": 1}
    (tmp_path / "comparison.json").write_text("{}")
    assert evaluate(tmp_path, "--no_report", **options) == 2
    assert "holds an evaluation; add --overwrite_output_dir" in capsys.readouterr().err
    assert "data" in evaluate(tmp_path, "--no_report", "--overwrite_output_dir", **options)["sets"]


def test_a_regression(tokenizer, tmp_path, capsys):
    """It is one because the model has a single output; options of classification are an error."""
    folder = save(bert(vocab_size=len(tokenizer), num_labels=1, initializer_range=0.2), tokenizer, tmp_path / "model")
    data = write_rows(tmp_path / "own.csv", [{"text": f"film {i}", "label": i / 7} for i in range(12)])
    found = evaluate(tmp_path, model=folder, data=data, samples=3)["sets"]["own"]
    assert re.match(r"Use (plain \(1 pass\)|MC dropout, 3 samples \(3 passes\)): ", found["recommendation"])
    assert "absolute error" in found["recommendation"]
    assert [row["passes"] for row in found["table"]] == [1, 3]
    assert found["table"][0]["rmse"] == found["scores"]["rmse"]
    assert evaluate(tmp_path, "--overwrite_output_dir", model=folder, data=data, ood=data) == 2
    assert "--ood is for classification; this model has head='regression'." in capsys.readouterr().err


def test_files_of_other_tasks(tokenizer, files, tmp_path, capsys):
    made = BertForQuestionAnswering(bert(vocab_size=len(tokenizer), num_labels=2).config)
    options = {"task_name": "squad", "data": files["data"]}
    assert evaluate(tmp_path, model=save(made, tokenizer, tmp_path / "model"), **options) == 2
    assert "is a file with texts and labels; squad-1.1 reads its files in --data_dir." in capsys.readouterr().err


def test_nothing_is_written_without_a_folder(model, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "--model", model, "--data", files["data"], "--samples", "1"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "Written" not in capsys.readouterr().out
