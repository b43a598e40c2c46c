"""CLINC150 in its published layout, and its out-of-scope questions as out-of-distribution rows."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from hf_bam.tasks import get_task
from hf_bam.tasks.base import DataError
from hf_bam.training import Recipe
from hf_bam.training.uncertainty import measure_uncertainty

from ..models import bert

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "clinc150"
ROWS = {
    "train": [["pay my bill", "pay"], ["what time is it", "time"], ["settle the invoice", "pay"]],
    "val": [["the hour please", "time"]],
    "test": [["please pay", "pay"], ["tell the time", "time"]],
    "oos_val": [["who won", "oos"]],
    "oos_test": [["why is the sky blue", "oos"], ["sing", "oos"], ["tell a joke", "oos"]],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data_full.json").write_text(json.dumps(ROWS), encoding="utf-8")
    return tmp_path


def test_sets_and_labels(folder):
    task = get_task("clinc150")
    data = task.load(folder)
    assert str(data) == "train 3, validation 1, test 2, validation_ood 1, test_ood 3"
    assert task.model_settings(data)["id2label"] == {0: "pay", 1: "time"}
    assert data.train["label"] == [0, 1, 0]
    assert task.inputs(data.ood["test"]) == ["why is the sky blue", "sing", "tell a joke"]
    assert data.ood["test"]["label"] == [None] * 3
    assert task.score(data.evaluation["test"], [0, 0]) == {"accuracy": 0.5}


def test_out_of_scope_questions_are_measured_against_the_test_set(folder, tokenizer):
    task = get_task("clinc150")
    data = task.load(folder)
    model = bert(vocab_size=tokenizer.vocab_size, num_labels=2, initializer_range=0.5)
    found = measure_uncertainty(
        task, model, tokenizer, data.evaluation["test"], Recipe(num_samples=1), ood=data.ood["test"]
    )
    known, unknown = (
        outcomes["plain"].samples.mean(axis=0) for outcomes in (found.comparison.outcomes, found.comparison.ood)
    )
    entropy = [-(p * np.log(p)).sum() for p in (*known, *unknown)]
    expected = roc_auc_score([0] * 2 + [1] * 3, entropy)
    assert found.table[0]["ood_auroc"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "data_full.json does not exist"),
        ("{", "is not JSON"),
        (json.dumps({**ROWS, "val": [["one"]]}), r"a list of \[question, intent\] under 'val'"),
        (json.dumps([1]), "under 'train'"),
    ],
)
def test_malformed_files_are_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "data_full.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        get_task("clinc150").load(tmp_path)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published data are not here")
def test_the_published_file():
    data = get_task("clinc150").load(PUBLISHED)
    assert str(data) == "train 15000, validation 3000, test 4500, validation_ood 100, test_ood 1000"
    assert data.train.features["label"].num_classes == 150
