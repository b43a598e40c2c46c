"""A short form of `kills.py`: kills while the last files are written and removed, and at random."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..training.conftest import custom, data_folder, model_folder, start  # noqa: F401  (fixtures)


@pytest.mark.slow
def test_runs_that_are_killed():
    operations = ["0", "1", "3", "8", "20", "40"]
    command = [sys.executable, "-W", "ignore", "-m", "tests.reliability.kills", "--kills", *operations]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "6  runs that ended at the same files" in done.stdout


def test_a_full_disk(start, capsys):  # noqa: F811
    """One sentence, and the run goes on from its last checkpoint when there is space again."""
    assert start.signalled(signal.SIGTERM) == 143
    before = {path: path.read_bytes() for path in start.folder.glob("checkpoints/*/*")}
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        assert start("--resume") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    error = capsys.readouterr().err
    assert len([line for line in error.splitlines() if line.startswith("error: ")]) == 1
    assert "File too large" in error
    assert "Traceback" not in error
    assert {path: path.read_bytes() for path in start.folder.glob("checkpoints/*/*")} == before
    assert start("--resume") == 0


@pytest.mark.parametrize("place", ["/proc/nothing", "/dev/null", "/dev/null/run", "\0"])
def test_places_that_cannot_be_written(start, place, capsys):  # noqa: F811
    assert start("--output", place) == 2
    assert capsys.readouterr().err.count("error: ") == 1
