"""The SQuAD task: files, errors, training and scores, and the published sets if they are there."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torchmetrics.functional.text import squad as oracle
from transformers import BertForQuestionAnswering

from hf_bam.prediction import Plain, Predictor
from hf_bam.tasks.base import DataError
from hf_bam.tasks.squad import Squad
from hf_bam.tasks.squad_answers import Choice, SquadAnswer
from hf_bam.tasks.squad_files import read

from ..models import bert
from .squad_scores import CONTEXT, answers, rows, windows_of

PUBLISHED = Path(__file__).parents[2] / ".." / "shared" / "data" / "squad"


def document(**changes):
    """A file with one article; `changes` are fields of its second question."""
    context = "Ada met Charles Babbage in June 1833."
    first = {"id": "q1", "question": "Whom?", "answers": [{"text": "Charles Babbage", "answer_start": 8}]}
    second = {"id": "q2", "question": "When?", "answers": [{"text": "June 1833", "answer_start": 27}], **changes}
    return {"version": "1.1", "data": [{"title": "Ada", "paragraphs": [{"context": context, "qas": [first, second]}]}]}


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_files_of_a_folder(tmp_path):
    written(tmp_path / "train-v2.0.json", document(answers=[], is_impossible=True))
    written(tmp_path / "dev-v2.0.json", "\ufeff" + json.dumps(document(question="Où ?"), ensure_ascii=False))
    data = Squad(version="2.0").load(tmp_path)
    assert list(data.evaluation) == ["dev"]
    assert (len(data.train), len(data.evaluation["dev"])) == (2, 2)
    assert data.train[1]["answers"] == {"text": [], "answer_start": []}
    assert data.evaluation["dev"][1] == {
        "id": "q2",
        "question": "Où ?",
        "context": "Ada met Charles Babbage in June 1833.",
        "answers": {"text": ["June 1833"], "answer_start": [27]},
    }


def test_files_with_other_names(tmp_path):
    written(tmp_path / "mine.json", document())
    data = Squad(train_file="mine.json", dev_file="mine.json").load(tmp_path)
    assert data.train["id"][:] == data.evaluation["dev"]["id"][:] == ["q1", "q2"]
    with pytest.raises(ValueError, match="give data_dir, too"):
        Squad(train_file="mine.json").load(None)


QUESTION = r"data\[0\]\.paragraphs\[0\]\.qas\[1\]"
WRONG = {
    "not JSON": ('{"data": [\n1,,]}', r"line 2, column 3: not valid JSON"),
    "a field twice": ('{"data": [], "data": [1]}', "expected every field once; found 'data' twice"),
    "a field twice within": (
        '{"data": [{"paragraphs": [], "paragraphs": 1}]}',
        r"data\[0\]: .* found 'paragraphs' twice",
    ),
    "a truth as offset": (
        document(answers=[{"text": "x", "answer_start": True}]),
        r"'answer_start' \(int\); found True",
    ),
    "no data": ({"rows": []}, r"expected a field 'data' \(list\); found the fields rows"),
    "a list": ([1], "expected an object with a field 'data'; found list"),
    "no questions": ({"data": []}, "has no questions"),
    "no paragraphs": ({"data": [{"title": "Ada"}]}, r"data\[0\]: expected a field 'paragraphs'"),
    "no answers": (document(answers=None), rf"{QUESTION}: expected a field 'answers' \(list\); found None"),
    "a number as id": (document(id=2), rf"{QUESTION}: expected a field 'id' \(str\); found 2"),
    "no offset": (document(answers=[{"text": "June"}]), rf"{QUESTION}\.answers\[0\]: expected a field 'answer_start'"),
    "an id twice": (document(id="q1"), "question q1: the id occurs twice"),
    "a row of 2.0": (document(answers=[], is_impossible=True), "question q2: expected an answer.*use version 2.0"),
    "a contradiction": (document(is_impossible=True), rf"{QUESTION}: is_impossible is true, and there are 1 answers"),
    "a wrong offset": (
        document(answers=[{"text": "June 1833", "answer_start": 26}]),
        "question q2: expected the answer 'June 1833' at character 26; found ' June 183'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_in_a_file_name_their_position(case, tmp_path):
    content, message = WRONG[case]
    path = written(tmp_path / "train-v1.1.json", content)
    written(tmp_path / "dev-v1.1.json", document())
    with pytest.raises(DataError, match=message) as caught:
        Squad().load(tmp_path)
    assert str(path) in str(caught.value)


def test_unreadable_files_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"train-v2\.0\.json does not exist; train_file and dev_file say"):
        Squad(version="2.0").load(tmp_path)
    (tmp_path / "train-v1.1.json").write_bytes(b'{"data": "\xff"}')
    with pytest.raises(DataError, match=r"train-v1\.1\.json: expected text in UTF-8; byte 10 is not"):
        Squad().load(tmp_path)


def test_offsets_of_an_evaluation_set_do_not_matter(tmp_path):
    path = written(tmp_path / "dev.json", document(answers=[{"text": "June 1833", "answer_start": 0}]))
    assert len(read(path, "1.1")) == 2


def test_an_unreachable_hub_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError, match=r"rajpurkar/squad_v2 could not be loaded.*folder with train-v2\.0\.json"):
        Squad(version="2.0").load(None)


def test_invalid_options_are_errors():
    with pytest.raises(ValueError, match=r"version='3' is not valid; it must be one of '1\.1', '2\.0'"):
        Squad(version="3")
    with pytest.raises(ValueError, match="n_best=0 is not valid; it must be a whole number, 1 or above"):
        Squad(n_best=0)


def trained(task, data, tokenizer, max_length):
    """A small BERT that has learned these rows by heart."""
    model = BertForQuestionAnswering(bert(vocab_size=len(tokenizer), num_labels=2).config)
    batch = task.collator(tokenizer, model)(list(task.encode(data, tokenizer, max_length)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(200):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        if loss < 0.01:
            break
    return model.eval()


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_from_rows_to_scores(version, tokenizer):
    questions = [("Who kept lighthouse 1?", "Nr1"), ("Which harbour is the third?", "harbour 21")]
    questions += [("Who lives on the moon?", None)] if version == "2.0" else []
    data, task = rows(*questions, context=CONTEXT[:330]), Squad(version=version, doc_stride=16)
    model = trained(task, data, tokenizer, max_length=48)
    predictor = Predictor(Plain(model), tokenizer, max_length=48, batch_size=2, **task.predictor_options)
    predictions = [task.prediction(result) for result in predictor(task.inputs(data))]
    assert [prediction.text for prediction in predictions] == [answer or "" for _, answer in questions]
    scores = task.score(data, predictions)
    assert scores[task.metric] == scores["exact_match" if version == "1.1" else "exact"] == 100


def test_files_in_the_official_format(tmp_path):
    data = rows(("Who kept lighthouse 1?", "Nr1"), ("Who lives on the moon?", None))
    choices = [Choice("Nr1", 0.75, 2.0, 1.0), Choice("", 0.25, 1.0, 0.9)]
    predictions = [SquadAnswer("Nr1", 0.75, "Nr1", -1.1, choices), SquadAnswer("", 0.9, "Zoë", 2.5, choices[1:])]
    path = Squad(version="2.0").write(data, predictions, "dev", tmp_path / "two")
    assert path == tmp_path / "two" / "predictions.json"
    content = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in path.parent.iterdir()}
    best = {"text": "Nr1", "probability": 0.75, "start_logit": 2.0, "end_logit": 1.0}
    none = {"text": "", "probability": 0.25, "start_logit": 1.0, "end_logit": 0.9}
    assert content == {
        "predictions.json": {"0": "Nr1", "1": ""},
        "null_odds.json": {"0": -1.1, "1": 2.5},
        "nbest_predictions.json": {"0": [best, none], "1": [none]},
    }
    Squad().write(data, predictions, "dev", tmp_path / "one")
    assert {file.name for file in (tmp_path / "one").iterdir()} == {"predictions.json", "nbest_predictions.json"}


published = pytest.mark.skipif(not PUBLISHED.exists(), reason="the published SQuAD sets are not part of the project")


def as_answers(texts):
    return [SquadAnswer(text, 1.0, text or "north", -1.0 if text else 1.0, []) for text in texts]


@published
@pytest.mark.parametrize(("version", "number"), [("1.1", 10570), ("2.0", 11873)])
def test_the_published_sets(version, number):
    task, data = Squad(version=version), read(PUBLISHED / f"dev-v{version}.json", version)
    assert len(data) == number
    texts = [(own["text"] or [""])[0] for own in data["answers"]]
    scores = task.score(data, as_answers(texts))
    names = ("exact_match", "f1") if version == "1.1" else ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_f1")
    assert [scores[name] for name in names] == [100] * len(names)
    if version == "2.0":
        assert (scores["HasAns_total"], scores["NoAns_total"]) == (5928, 5945)


@published
def test_published_answers_agree_with_torchmetrics():
    data = read(PUBLISHED / "dev-v1.1.json", "1.1").select(range(0, 10570, 20))
    generator = np.random.default_rng(0)
    texts = []
    for row in data:  # a few words around an answer
        start = max(0, row["answers"]["answer_start"][0] - generator.integers(0, 12))
        texts.append(row["context"][start : start + generator.integers(1, 40)])
    expected = oracle(
        [{"prediction_text": text, "id": row["id"]} for text, row in zip(texts, data, strict=True)],
        [{"answers": row["answers"], "id": row["id"]} for row in data],
    )
    scores = Squad().score(data, as_answers(texts))
    assert 0 < scores["exact_match"] < scores["f1"] < 100
    assert scores == {name: pytest.approx(value.item(), rel=1e-5) for name, value in expected.items()}


@published
def test_published_answers_are_found_at_their_training_positions(tokenizer):
    data = read(PUBLISHED / "new-wiki-v1.0.json", "1.1", training=True).select(range(0, 7938, 40))
    task = Squad(doc_stride=64, max_answer_length=192)
    labels, features = task.encode(data, tokenizer, 192), windows_of(data, tokenizer, 192, 64)
    assert len(features) > len(data)
    names = ("start_logits", "end_logits")
    outputs = [{name: np.zeros(len(own["input_ids"])) for name in names} for own in features]
    for own, output in zip(labels, outputs, strict=True):
        output["start_logits"][own["start_positions"]] = output["end_logits"][own["end_positions"]] = 5.0
    scores = task.score(data, answers(task, data, features, outputs, tokenizer, 192))
    assert scores["exact_match"] > 99  # a few answers are parts of words
    assert scores["f1"] > 99.5
