"""A folder holds one run: settings, results, checkpoints and data of different runs are never mixed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_bam.training import run, run_all
from hf_bam.training.arguments import parse
from hf_bam.training.files import read_yaml, write_yaml
from hf_bam.training.folder import Folder
from hf_bam.training.lock import locked

from .conftest import FOUR_STEPS

ROOT = Path(__file__).parents[2]
LOCK = "import fcntl, time; f = open('.lock', 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"


def results(folder):
    return json.loads((folder / "results.json").read_text())


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


def test_another_seed_does_not_get_the_results_of_the_first(start, kill, tmp_path, capsys):
    assert start("--seed", "0") == 0
    first = weights(start.folder)
    for again in ([], ["--resume"]):
        assert start("--seed", "1", *again) == 2
        assert "was made with seed=0, and this run has 1" in capsys.readouterr().err
    assert (results(start.folder)["settings"]["seed"], read_yaml(start.folder / "config.yaml")["seed"]) == (0, 0)
    kill("--seed", "1", "--overwrite_output_dir")
    assert not any((start.folder / name).exists() for name in ("results.json", "model", "predictions"))
    assert start("--seed", "0", "--resume") == 2
    assert start("--seed", "1", "--resume") == 0
    assert results(start.folder)["settings"]["seed"] == 1
    assert start("--seed", "1", "--output", str(tmp_path / "other")) == 0
    one, other = weights(start.folder), weights(tmp_path / "other")
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert not torch.equal(one["classifier.weight"], first["classifier.weight"])


def test_an_existing_run_is_kept_without_an_option(start, kill, capsys):
    kill()
    before = sorted(start.folder.glob("checkpoints/*/*"))
    assert start() == 2
    err = capsys.readouterr().err
    assert "holds a run that is not finished" in err
    assert "--resume" in err
    assert "--overwrite_output_dir" in err
    assert sorted(start.folder.glob("checkpoints/*/*")) == before != []
    assert start("--lr", "0.1", "--resume") == 2
    assert start("--resume", "--overwrite_output_dir") == 2
    assert "exclude each other" in capsys.readouterr().err
    assert start("--resume", "--logging_steps", "1") == 0  # weights do not depend on it
    assert start("--resume") == 0
    assert start("--resume", "--samples", "2") == 2
    assert start("--logging_steps", "1") == 2
    err = capsys.readouterr().err
    assert "holds a run that is finished" in err
    assert "--resume" in err
    assert "--overwrite_output_dir" in err
    assert start("--logging_steps", "1", "--overwrite_output_dir") == 0


def test_an_error_before_training_keeps_the_earlier_run(start, capsys):
    assert start() == 0
    assert start("--model", "./nowhere", "--overwrite_output_dir") == 2
    assert start("--text_column", "nothing", "--overwrite_output_dir") == 2
    capsys.readouterr()
    assert start("--resume") == 0
    assert "is already finished" in capsys.readouterr().out


def test_an_error_before_training_leaves_no_folder(start):
    assert start("--model", "./nowhere") == 2
    assert not start.folder.exists()
    assert start() == 0


def test_data_may_move_but_not_change(start, kill, data_folder, tmp_path, capsys):
    moved = shutil.copytree(data_folder, tmp_path / "moved")
    changed = shutil.copytree(data_folder, tmp_path / "changed")
    text = (changed / "validation.csv").read_text()
    (changed / "validation.csv").write_text(text.replace("bad film", "bad plot", 1))

    def check_changed():
        assert start("--resume", "--data_dir", str(changed)) == 2
        assert "was made with data.validation='" in capsys.readouterr().err

    kill()
    check_changed()
    kill("--resume", "--data_dir", str(moved))
    assert start("--resume", "--data_dir", str(moved)) == 0
    check_changed()
    assert start("--resume") == 0


def test_overwriting_does_not_remove_inputs_of_the_run(start, capsys):
    assert start() == 0
    assert start("--model", str(start.folder / "model"), "--overwrite_output_dir") == 2
    assert "model_name_or_path=" in capsys.readouterr().err
    assert (start.folder / "model" / "config.json").exists()


def test_other_files_are_kept(start):
    start.folder.mkdir()
    (start.folder / "notes.txt").write_text("mine")
    assert start() == 0
    assert start("--overwrite_output_dir") == 0
    assert (start.folder / "notes.txt").read_text() == "mine"


def test_an_interrupted_write_of_the_config(start, kill, monkeypatch):
    """The file is complete or unchanged."""
    kill()
    before = (start.folder / "config.yaml").read_text()
    job = parse("squad", []).jobs[0]
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_yaml(start.folder / "config.yaml", job.to_dict())
    assert (start.folder / "config.yaml").read_text() == before


def test_two_runs_at_once(start, capsys):
    """The lock ends with its process, also if that is killed."""
    start.folder.mkdir()
    process = subprocess.Popen([sys.executable, "-c", LOCK], cwd=start.folder, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert start() == 2
    assert "is in use by another run" in capsys.readouterr().err
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert start() == 0
    with locked(start.folder):
        assert start("--resume") == 2
    assert start("--resume") == 0


@pytest.mark.slow
def test_data_loader_processes_do_not_keep_the_lock(tmp_path):
    """The lock is free when the run ends, even if a child process still runs."""
    program = (
        "import os, sys, time; from pathlib import Path; from hf_bam.training.lock import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    child = os.fork()\n"
        "    time.sleep(60) if child == 0 else None\n"
        "    print(child, flush=True)\n"
        "    os._exit(0)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    process.wait()
    try:
        with locked(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_system_without_locks(start, monkeypatch):
    monkeypatch.setattr("hf_bam.training.lock.fcntl", None)
    assert start() == 0


def test_several_seeds(custom, tmp_path):
    jobs = parse("custom", [*custom, *FOUR_STEPS, "--attention", "plain", "--seeds", "0", "1"]).jobs
    run_all(jobs, tmp_path, log=lambda text: None)
    summary = (tmp_path / "summary.json").read_text()
    with pytest.raises(ValueError, match="holds a run that is finished"):
        run_all(jobs, tmp_path, log=lambda text: None)
    assert len(run_all(jobs, tmp_path, resume=True, log=lambda text: None)) == 2
    assert (tmp_path / "summary.json").read_text() == summary
    with pytest.raises(ValueError, match=r"seed-0 would hold two runs; give every task and every seed once"):
        run_all([jobs[0], jobs[0]], tmp_path, overwrite_output_dir=True)


def test_in_python(custom, tmp_path):
    (job,) = parse("custom", [*custom, *FOUR_STEPS, "--attention", "plain"]).jobs
    first = run(job, tmp_path, log=lambda text: None)
    assert run(job, tmp_path, overwrite_output_dir=True, log=lambda text: None).scores == first.scores
    assert run(job, tmp_path, resume=True, log=lambda text: None).about["data"] == first.about["data"]


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    (tmp_path / "predictions").mkdir()
    kept = tmp_path / "predictions" / "validation.jsonl"
    for file in (kept, kept.with_name(".validation.jsonl.4711"), tmp_path / ".predictions"):
        file.touch()
    Folder(tmp_path).remove_unfinished()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [kept]
