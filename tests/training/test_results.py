import math
from pathlib import Path

import pytest
from datasets import Dataset

from hf_bam.training import Result
from hf_bam.training.evaluation import subsample
from hf_bam.training.results import score_rows, summary


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


@pytest.mark.parametrize("content", ["{", "[]", '{"task": "rte"}'])
def test_results_that_are_none(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=r"results\.json does not hold the results of a run"):
        Result.read(tmp_path)


def test_some_rows_are_spread_over_all():
    rows = Dataset.from_dict({"number": list(range(10))})
    assert subsample(rows, 4)["number"][:] == [0, 2, 5, 7]
    assert len(subsample(rows, None)) == len(subsample(rows, 99)) == 10
