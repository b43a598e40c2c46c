"""Execution of the study."""

import json
import shutil
import time
from argparse import Namespace

import pytest
import yaml

from benchmarks.storage import read_lines
from benchmarks.studies import runner


def test_a_plan_that_changes_during_the_study_is_followed(grid, tmp_path, monkeypatch):
    """The first run replaces the runs that are planned after it."""
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(grid))

    def execute(run, values, options):
        changed = [{"tasks": ["custom"], "configurations": ["plain"], "seeds": [0, 7]}]
        path.write_text(yaml.safe_dump(grid | {"plan": changed}))
        return {**run._asdict(), "num_samples": values["num_samples"]}

    monkeypatch.setattr(runner, "execute", execute)
    options = Namespace(grid=path, records=tmp_path / "study.jsonl", output=tmp_path, data_dir="data", jobs=1)
    runner.main(options)
    expected = [{"task": "custom", "configuration": "plain", "seed": seed, "num_samples": 3} for seed in (0, 7)]
    assert read_lines(options.records) == expected


def test_a_run_waits_for_the_model_that_it_starts_from(grid, tmp_path, monkeypatch):
    plain = grid["configurations"]["plain"]
    names = ["base", "first", "second", "other"]
    configurations = {"base": plain, "other": plain} | dict.fromkeys(names[1:3], plain | {"start": "base"})
    plan = [{"tasks": ["custom"], "configurations": names, "seeds": [0]}]
    path, events = tmp_path / "grid.yaml", []
    path.write_text(yaml.safe_dump(grid | {"configurations": configurations, "plan": plan}))

    def execute(run, values, options):
        events.append(f"{run.configuration} starts")
        time.sleep(0.2 if run.configuration == "base" else 0.01)
        events.append(f"{run.configuration} ends")
        return run._asdict()

    monkeypatch.setattr(runner, "execute", execute)
    runner.main(Namespace(grid=path, records=tmp_path / "study.jsonl", output=tmp_path, data_dir="data", jobs=3))
    assert {*events[:2]} == {"base starts", "other starts"}
    assert all(events.index(f"{name} starts") > events.index("base ends") for name in ("first", "second"))
    assert len(events) == 8


def test_an_error_of_a_run_does_not_leave_others_waiting_for_its_model(grid, tmp_path, monkeypatch):
    plain = grid["configurations"]["plain"]
    plan = [{"tasks": ["custom"], "configurations": ["base", "later"], "seeds": [0]}]
    path, started = tmp_path / "grid.yaml", []
    path.write_text(
        yaml.safe_dump(grid | {"configurations": {"base": plain, "later": plain | {"start": "base"}}, "plan": plan})
    )

    def execute(run, values, options):
        started.append(run.configuration)
        if run.configuration == "base":
            time.sleep(0.2)
            raise OSError("no space left")

    monkeypatch.setattr(runner, "execute", execute)
    with pytest.raises(OSError, match="no space left"):
        runner.main(Namespace(grid=path, records=tmp_path / "study.jsonl", output=tmp_path, data_dir="data", jobs=2))
    assert started == ["base", "later"]


@pytest.mark.slow
def test_an_interrupted_study_is_resumed(grid, data_folder, tmp_path, capsys):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    paths = {"grid": tmp_path / "grid.yaml", "records": tmp_path / "study.jsonl", "output": tmp_path / "out"}
    options = Namespace(**paths, data_dir=data_folder.parent, jobs=2)
    runner.main(options)
    first, second = sorted(read_lines(options.records), key=lambda record: record["configuration"])
    assert (first["configuration"], second["configuration"]) == ("BAM k=2", "plain")
    options.records.write_text(json.dumps(first) + "\n")
    capsys.readouterr()
    runner.main(options)
    printed = capsys.readouterr().out
    assert "1 runs are finished, 1 are missing" in printed
    assert "settings differ" not in printed
    again = read_lines(options.records)[1]
    assert (again["scores"], again["training_seconds"]) == (second["scores"], second["training_seconds"])
    options.grid.write_text(yaml.safe_dump(grid | {"common": {**grid["common"], "num_samples": 4}}))
    runner.main(options)
    assert capsys.readouterr().out.count("its settings differ from those of the grid") == 2


def test_a_run_that_fails_has_no_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner.sys, "executable", shutil.which("false"))
    run = runner.PlannedRun("custom", "plain", 0)
    assert runner.execute(run, {}, Namespace(output=tmp_path, jobs=1)) is None
    assert "seed-0 failed, see its output.txt" in capsys.readouterr().out
