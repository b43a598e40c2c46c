"""Command line of the benchmarks, and their result files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run, storage

SCRIPT = Path(run.__file__)


def test_the_script_runs_from_any_folder(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "python benchmarks/run.py speed" in done.stdout


@pytest.mark.parametrize("module", [*run.MEASURED.values(), *run.PROGRAMS.values()])
def test_every_command_has_a_module(module):
    assert (SCRIPT.parent / (module.replace(".", "/") + ".py")).exists()


def test_rows_become_a_result_file(tmp_path, monkeypatch, capsys):
    rows = [{"seconds": 1.5}, {"seconds": 2.5}]
    monkeypatch.setattr(storage, "RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.cost.speed.rows", lambda: iter(rows))
    monkeypatch.setattr(sys, "argv", ["run.py", "speed"])
    run.main()
    found = storage.read("speed")
    assert found["rows"] == rows == [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found["command"] == "python benchmarks/run.py speed"


def test_lines_are_read_as_they_were_appended(tmp_path):
    file = tmp_path / "records.jsonl"
    assert storage.read_lines(file) == []
    for record in ({"seed": 0}, {"seed": 1}):
        storage.append_line(file, record)
    assert storage.read_lines(file) == [{"seed": 0}, {"seed": 1}]
