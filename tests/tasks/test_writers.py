"""Writers of rows, against the readers of other libraries."""

import csv
import json
import math

import pandas as pd
import pytest

from hf_bam.tasks.readers import read_txt
from hf_bam.tasks.writers import WRITERS, write_rows, writing

ROWS = [
    {"text": 'a "film", or\ntwo', "prediction": "gut", "p": 0.123456789, "set": ["a", "b"], "flag": True, "n": None},
    {"text": "ü\t", "prediction": "böse", "p": math.nan, "set": [], "flag": False, "n": None},
]


@pytest.fixture(params=WRITERS)
def file(request, tmp_path):
    """A file that was written in two parts."""
    path = tmp_path / "new" / f"out{request.param}"
    with writing(path) as write:
        assert not path.exists()
        write(ROWS[:1])
        write(ROWS[1:])
    assert [own.name for own in path.parent.iterdir()] == [path.name]
    return path


def test_files_have_the_rows(file):
    if file.suffix == ".csv":
        with file.open(newline="", encoding="utf-8") as opened:
            rows = list(csv.DictReader(opened))
        assert [row["text"] for row in rows] == [row["text"] for row in ROWS]
        assert [row["p"] for row in rows] == ["0.123457", ""]
        assert [json.loads(row["set"]) for row in rows] == [["a", "b"], []]
    elif file.suffix == ".tsv":
        assert file.read_text(encoding="utf-8").splitlines()[1].split("\t")[:2] == ['a "film", or two', "gut"]
    elif file.suffix == ".jsonl":
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert rows == [ROWS[0], {**ROWS[1], "p": None}]
    elif file.suffix == ".parquet":
        frame = pd.read_parquet(file)
        assert frame["p"].tolist()[0] == ROWS[0]["p"]
        assert frame["set"].map(list).tolist() == [["a", "b"], []]
        assert frame["p"].isna().tolist() == [False, True]
    else:
        assert file.read_text(encoding="utf-8") == "gut\nböse\n"
        assert [record["text"] for record in read_txt(file)] == ["gut", "böse"]


def test_an_error_leaves_the_old_file(tmp_path):
    path = write_rows(tmp_path / "out.csv", [{"a": 1}])
    with pytest.raises(ValueError, match="a column 'b' that the first rows do not have"), writing(path) as write:
        _ = write([{"a": 2}]), write([{"a": 3, "b": 4}])
    assert path.read_text() == "a\n1\n"
    assert [own.name for own in tmp_path.iterdir()] == ["out.csv"]
    with pytest.raises(ValueError, match=r"another ending than .csv, .tsv, .jsonl, .parquet, .txt"):
        write_rows(tmp_path / "out.xlsx", [])
