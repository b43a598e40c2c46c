"""Fingerprints of rows, and differences of settings."""

import pytest
from datasets import Dataset, concatenate_datasets

from hf_bam.tasks.classification import make_rows
from hf_bam.training.identity import check_same, fingerprint

TEXTS, LABELS = [f"text {i}" for i in range(2500)], [i % 2 for i in range(2500)]


def rows(texts=TEXTS, labels=LABELS, names=("a", "b")):
    return make_rows([texts], labels, names)


def test_fingerprints_do_not_depend_on_storage(tmp_path):
    """On disk, in other chunks, and selected from more rows."""
    expected = fingerprint(rows())
    rows().save_to_disk(tmp_path / "rows")
    assert fingerprint(Dataset.load_from_disk(tmp_path / "rows")) == expected
    parts = [rows().select(range(700)), rows().select(range(700, 2500))]
    assert fingerprint(concatenate_datasets(parts)) == expected
    assert fingerprint(rows().select(range(2499, -1, -1)).select(range(2499, -1, -1))) == expected
    assert fingerprint(rows().with_format("torch", columns=["label"])) == expected


@pytest.mark.parametrize(
    "other",
    [
        rows(texts=[*TEXTS[:-1], "text"]),
        rows(labels=[*LABELS[:-1], 0]),
        rows(labels=[*LABELS[:-1], None]),
        rows(names=("a", "c")),
        rows(texts=[*TEXTS[1::-1], *TEXTS[2:]]),
        rows().select(range(2499)),
        rows().rename_column("sentence1", "sentence2"),
        rows().remove_columns("idx"),
    ],
    ids=["text", "label", "no label", "class", "order", "fewer", "name", "column"],
)
def test_other_rows_have_another_fingerprint(other):
    assert fingerprint(other) != fingerprint(rows())


def test_the_difference_is_named():
    check_same(
        "x",
        {"learning_rate": 1, "data_dir": "a", "bam": {"k": 1}},
        {"learning_rate": 1.0, "data_dir": "b", "bam": {"k": 1}},
    )
    check_same("x", {"max_steps": 3, "num_train_epochs": 5}, {"max_steps": 3})
    with pytest.raises(ValueError, match=r"x was made with bam\.k=1, and this run has 2;.*--overwrite_output_dir"):
        check_same("x", {"bam": {"k": 1, "beta": 3}}, {"bam": {"k": 2, "beta": 3}})
    with pytest.raises(ValueError, match="x was made with limit=None, and this run has 5"):
        check_same("x", {}, {"limit": 5})
    with pytest.raises(ValueError, match="x was made with limit=5, and this run has None"):
        check_same("x", {"limit": 5}, {})
