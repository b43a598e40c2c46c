"""Checkpoints are complete or absent."""

import json
import pickle
import resource
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


@pytest.mark.parametrize("file", ["model.safetensors", "state.json", "manifest.json"])
def test_the_newest_whole_checkpoint_survives(checkpoints, file):
    for step in (1, 2):
        save(checkpoints, step)
    for step in (3, 4):  # damaged as soon as they are written
        shutil.copytree(checkpoints.at(2).folder, checkpoints.at(step).folder)
        (checkpoints.at(step).folder / file).write_bytes(b"{")
        checkpoints.prune(step)
        assert checkpoints.last().step == 2
    assert steps(checkpoints) == [1, 2]


def test_pruning_does_not_count_damaged_checkpoints(checkpoints):
    for step in (1, 2):
        save(checkpoints, step)
    (checkpoints.at(2).folder / "state.json").write_text("{")
    checkpoints.prune(2)
    assert checkpoints.last().step == 1
    save(checkpoints, 3)
    assert steps(checkpoints) == [1, 3]


def test_a_damaged_best_checkpoint_leaves_the_one_before(checkpoints):
    checkpoints = Checkpoints(checkpoints.folder, save_total_limit=3)
    for step, best in ((1, 1), (2, 2), (3, 2)):
        save(checkpoints, step, best)
    (checkpoints.at(2).folder / "model.safetensors").unlink()
    assert checkpoints.last().step == 1


def test_other_files_are_passed_over(checkpoints, caplog):
    save(checkpoints, 1)
    for name in ("step-abc", "notes.txt", "step-00000009", ".step-00000007"):
        (checkpoints.folder / name).mkdir()
    (checkpoints.folder / "step-00000008").touch()
    assert checkpoints.last().step == 1
    checkpoints.warn()
    warned = [record.message for record in caplog.records]
    assert len(warned) == 4
    assert any("step-00000009 is damaged or incomplete" in text for text in warned)
    assert any("step-abc is not a checkpoint" in text for text in warned)
    save(checkpoints, 2)
    assert not (checkpoints.folder / ".step-00000007").exists()
    assert (checkpoints.folder / "notes.txt").exists()


def test_links(checkpoints, tmp_path):
    """To other disks, for instance: what they lead to stays."""
    for step in (1, 2):
        save(checkpoints, step)
    for name, step in (("elsewhere", 1), ("unfinished", None)):
        place = tmp_path / name
        (place / "file").mkdir(parents=True) if step is None else checkpoints.at(step).folder.rename(place)
    checkpoints.at(1).folder.symlink_to(tmp_path / "elsewhere")
    (checkpoints.folder / ".step-00000007").symlink_to(tmp_path / "unfinished")
    (checkpoints.folder / ".step-00000008").touch()
    save(checkpoints, 3)
    assert [entry.name for entry in sorted(checkpoints.folder.iterdir())] == ["step-00000002", "step-00000003"]
    assert (tmp_path / "elsewhere" / "state.json").exists()
    assert (tmp_path / "unfinished" / "file").exists()


def test_a_folder_that_is_a_link_is_emptied(checkpoints, tmp_path):
    (tmp_path / "disk").mkdir()
    checkpoints.folder.symlink_to(tmp_path / "disk")
    save(checkpoints, 1)
    checkpoints.clear()
    assert list((tmp_path / "disk").iterdir()) == []
    save(checkpoints, 2)
    assert checkpoints.last().step == 2


def test_a_full_disk_leaves_nothing(checkpoints):
    save(checkpoints, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=r"File too large|cannot be written"):
            save(checkpoints, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in checkpoints.folder.iterdir()] == ["step-00000001"]
    assert checkpoints.last().step == 1
