"""Checkpoints are complete or absent."""

import json
import pickle
import shutil

import pytest
import torch

from hf_bam.training.checkpoints import Checkpoints


def save(checkpoints, step, best=None):
    values = {"best": None if best is None else {"step": best}, "step": step}
    return checkpoints.save(step, {"model": {"weight": torch.full((4,), float(step))}}, values)


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", save_total_limit=2)


def steps(checkpoints):
    return [checkpoint.step for checkpoint in checkpoints.all()]


def test_save_and_load(checkpoints):
    assert checkpoints.last() is None
    save(checkpoints, 3)
    last = checkpoints.last()
    assert last.step == 3
    assert last.values()["step"] == 3
    assert torch.equal(last.tensors("model")["weight"], torch.full((4,), 3.0))


def test_old_checkpoints_are_removed_and_the_best_is_kept(checkpoints):
    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2)):
        save(checkpoints, step, best)
    assert steps(checkpoints) == [2, 4, 5]
    save(checkpoints, 6, best=6)
    assert steps(checkpoints) == [2, 5, 6]  # step 5 still calls 2 its best
    checkpoints.clear()
    assert steps(checkpoints) == []


@pytest.mark.parametrize("file", ["model.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_an_incomplete_checkpoint_is_skipped(checkpoints, file, damage):
    save(checkpoints, 1)
    path = save(checkpoints, 2).folder / file
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-3] if damage == "cut" else content[:-3] + b"???")
    assert checkpoints.last().step == 1
    save(checkpoints, 2)
    assert checkpoints.last().step == 2


@pytest.mark.parametrize("file", ["model.safetensors", "state.json"])
def test_an_incomplete_checkpoint_is_not_among_those_to_keep(checkpoints, file):
    """Training resumes from the one before, and with another interval."""
    save(checkpoints, 1)
    save(checkpoints, 2)
    for step in (5, 6):
        (save(checkpoints, step).folder / file).unlink()
    shutil.copytree(checkpoints.at(6).folder, checkpoints.at(4).folder)
    save(checkpoints, 3)
    assert checkpoints.last().step == 3
    assert steps(checkpoints)[-1] == 3


def test_an_interrupted_write(checkpoints, monkeypatch):
    """Killed before the folder got its name: the earlier checkpoint is the last one, and the next write succeeds."""
    save(checkpoints, 1)
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.rename", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            save(checkpoints, 2)
    assert checkpoints.last().step == 1
    save(checkpoints, 2)
    assert steps(checkpoints) == [1, 2]
    assert len(list(checkpoints.folder.iterdir())) == 2


def test_nothing_is_pickled(checkpoints):
    for file in save(checkpoints, 1).folder.iterdir():
        if file.suffix == ".json":
            json.loads(file.read_text())
        else:
            assert file.suffix == ".safetensors"
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(file.read_bytes())
