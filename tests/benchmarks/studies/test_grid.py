"""Plan of the study."""

from pathlib import Path

import pytest

from benchmarks.run import HERE
from benchmarks.storage import read_lines
from benchmarks.studies import grid as plans
from benchmarks.studies.grid import Evaluation, PlannedRun
from hf_bam.training.settings import resolve

COMMITTED = plans.read(HERE / "studies" / "study.yaml")


def test_a_row_of_the_plan_stands_for_all_its_combinations():
    plan = [
        {"tasks": ["a"], "configurations": ["x", "y"], "seeds": [0]},
        {"tasks": ["b"], "configurations": ["x"], "seeds": [0, 1]},
    ]
    expected = [("a", "x", 0), ("a", "y", 0), ("b", "x", 0), ("b", "x", 1)]
    assert plans.planned_runs({"plan": plan}) == expected


def test_a_run_that_is_planned_twice_is_an_error():
    plan = [
        {"tasks": ["a"], "configurations": ["x"], "seeds": [0, 1]},
        {"tasks": ["a", "b"], "configurations": ["x"], "seeds": [1]},
    ]
    with pytest.raises(ValueError, match="a, x, seed 1 is planned 2 times"):
        plans.planned_runs({"plan": plan})


def test_records_are_put_in_the_order_of_the_plan():
    """By task and configuration, then by seed; other fields stay with their run."""
    runs = [("b", "x", 0), ("a", "y", 1), ("a", "x", 2), ("a", "y", 0), ("a", "x", 1)]
    records = [{**PlannedRun(*run)._asdict(), "place": place} for place, run in enumerate(runs)]
    grid = {"tasks": {"a": {}, "b": {}}, "configurations": {"y": {}, "x": {}}}
    assert [record["place"] for record in plans.in_order(records, grid)] == [3, 1, 4, 2, 0]


def test_later_settings_override_earlier_ones_field_by_field():
    grid = {
        "common": {"num_samples": 32, "bam": {"k": 5, "beta": 10}},
        "tasks": {"t": {"num_samples": 8, "data": "glue"}},
        "configurations": {"x": {"bam": {"k": 1}, "by_task": {"t": {"dropout": 0.2}, "u": {"dropout": 0.3}}}},
    }
    found = plans.settings(grid, PlannedRun("t", "x", 3), "root")
    expected = {"task_name": "t", "seed": 3, "num_samples": 8, "bam": {"k": 1, "beta": 10}, "dropout": 0.2}
    assert found == {**expected, "data_dir": str(Path("root", "glue"))}
    assert plans.without_paths(found) == expected


def test_settings_of_the_evaluation_are_separated_from_those_of_the_training():
    evaluation, training = plans.split({"seed": 1, "pilot": True, "evaluation_set": "test"})
    assert evaluation == Evaluation(evaluation_set="test", pilot=True)
    assert training == {"seed": 1}


def test_the_paper_has_settings_for_each_task():
    tasks = {"cola": 10, "mrpc": 100, "sentiment": 1000}
    runs = [PlannedRun(task, "paper", 0) for task in tasks]
    found = [resolve(plans.split(plans.settings(COMMITTED, run, "data"))[1]).recipe.bam for run in runs]
    assert [config.k for config in found] == list(tasks.values())
    assert {config.kl_weight for config in found} == {1}


def test_every_committed_run_can_be_resolved():
    for run in plans.planned_runs(COMMITTED):
        job = resolve(plans.split(plans.settings(COMMITTED, run, "data"))[1])
        attention = "plain" if run.configuration.startswith("plain") else "bam"
        assert (job.task_name, job.seed, job.attention) == (run.task, run.seed, attention)


def test_the_committed_records_are_those_of_the_committed_plan():
    records = {
        PlannedRun(record["task"], record["configuration"], record["seed"]): record["settings"]
        for record in read_lines(HERE / "results" / "study.jsonl")
    }
    assert records.keys() == {*plans.planned_runs(COMMITTED)}
    for run, settings in records.items():
        assert settings == plans.without_paths(plans.settings(COMMITTED, run, "data"))
