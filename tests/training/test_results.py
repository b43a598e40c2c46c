import math
from pathlib import Path

import pytest

from hf_bam.training import Result
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


def test_write_and_read(tmp_path):
    result = Result("rte", tmp_path, {"dev": {"accuracy": 0.5}}, {"dev": [{"method": "plain"}]}, {"steps": 3})
    result.write()
    assert Result.read(tmp_path) == result
    result.about["seconds"] = math.nan
    assert '"seconds": null' in result.write().read_text()  # JSON has no NaN
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("content", ["{", "[]", '{"task": "rte"}'])
def test_a_file_without_results(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=r"results\.json does not hold the results of a run"):
        Result.read(tmp_path)
