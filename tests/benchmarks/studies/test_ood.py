"""Out-of-distribution inputs."""

import json

import pytest

from benchmarks.studies import ood
from hf_bam.tasks import get_task
from hf_bam.tasks.base import Data
from hf_bam.tasks.classification import make_rows

NAMES = ("negative", "positive")


def rows(*texts):
    return make_rows([texts], [0] * len(texts), NAMES)


@pytest.fixture
def task():
    return get_task("custom", text_column="text", label_column="label")


def test_without_a_description_there_are_none(task):
    assert ood.read(None, task, None, None) == []


def test_other_evaluation_sets(task):
    data = Data(rows("t"), {"dev": rows("a"), "news": rows("b", "c", "d", "e"), "tweets": rows("f")})
    spec = {"reader": "sets", "names": ["news", "tweets"], "rows": 2}
    assert ood.read(spec, task, data, None) == ["b", "d", "f"]


def test_the_last_column_of_a_file(task, tmp_path):
    (tmp_path / "file.tsv").write_text("x\t1\t\tThe first.\ny\t0\t*\tThe second.\n", encoding="utf-8")
    spec = {"reader": "last_column", "file": "file.tsv"}
    assert ood.read(spec, task, None, tmp_path) == ["The first.", "The second."]


def test_an_evaluation_set_of_another_task(task, tmp_path):
    folder = tmp_path / "RTE"
    folder.mkdir()
    header, lines = "index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment\n1\tc\td\tnot_entailment"
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text(f"{header}\n{lines}\n", encoding="utf-8")
    (folder / "test.tsv").write_text("index\tsentence1\tsentence2\n0\te\tf\n", encoding="utf-8")
    spec = {"reader": "task", "name": "rte", "split": "dev"}
    assert ood.read(spec, task, None, tmp_path) == [("a", "b"), ("c", "d")]


def test_unanswerable_questions(tmp_path):
    answer = {"text": "red", "answer_start": 4}
    questions = [
        {"id": "1", "question": "Which colour?", "answers": [answer], "is_impossible": False},
        {"id": "2", "question": "Which size?", "answers": [], "is_impossible": True},
    ]
    content = {
        "version": "v2.0",
        "data": [{"title": "t", "paragraphs": [{"context": "The red one.", "qas": questions}]}],
    }
    (tmp_path / "dev.json").write_text(json.dumps(content), encoding="utf-8")
    spec = {"reader": "unanswerable", "file": "dev.json", "rows": 5}
    assert ood.read(spec, get_task("squad"), None, tmp_path) == [("Which size?", "The red one.")]


def test_rows_that_are_out_of_distribution_are_removed(task):
    assert list(ood.remove(task, rows("a", "b", "c"), ["b"])["sentence1"]) == ["a", "c"]
