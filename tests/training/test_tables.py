import math
from pathlib import Path

from datasets import Dataset

from hf_bam.training import Result
from hf_bam.training.evaluation import some_rows
from hf_bam.training.results import score_rows, summary
from hf_bam.training.tables import as_markdown, as_text

ROWS = [
    {"method": "plain", "accuracy": 0.5, "draws": 1},
    {"method": "BAM", "accuracy": math.nan, "extra": 123.456, "draws": None},
]


def test_text():
    assert as_text(ROWS).splitlines() == [
        "method  accuracy  draws  extra",
        "plain      0.500      1",
        "BAM            -      -  123.5",
    ]


def test_markdown():
    assert as_markdown(ROWS).splitlines()[1:3] == ["| :--- | ---: | ---: | ---: |", "| plain | 0.500 | 1 |  |"]


def test_summary():
    results = [Result("rte", Path(), {"dev": {"accuracy": value}}, {}, {}) for value in (0.5, 0.7, 0.6)]
    (row,) = summary(results)
    assert {name: row[name] for name in ("task", "set", "score", "runs")} == {
        "task": "rte",
        "set": "dev",
        "score": "accuracy",
        "runs": 3,
    }
    assert math.isclose(row["mean"], 0.6)
    assert math.isclose(row["std"], 0.1)
    assert math.isnan(summary(results[:1])[0]["std"])
    assert score_rows(results[0].scores) == [{"set": "dev", "accuracy": 0.5}]


def test_results_there_and_back(tmp_path):
    result = Result("rte", tmp_path, {"dev": {"accuracy": 0.5}}, {"dev": [{"method": "plain"}]}, {"steps": 3})
    result.write()
    assert Result.read(tmp_path) == result
    result.about["seconds"] = math.nan
    assert '"seconds": null' in result.write().read_text()  # what any reader of JSON takes
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_some_rows_are_spread_over_all():
    rows = Dataset.from_dict({"number": list(range(10))})
    assert some_rows(rows, 4)["number"][:] == [0, 2, 5, 7]
    assert len(some_rows(rows, None)) == len(some_rows(rows, 99)) == 10
