"""A resumed run has the weights of one that was not interrupted, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hf_bam.training import BestModelTracker, Recipe, train

from .cases import classifier, collate, examples, same, weights

# 22 examples: six steps of two batches in an epoch, so checkpoints lie within epochs, too.
RECIPE = Recipe(
    learning_rate=5e-3,
    batch_size=4,
    gradient_accumulation_steps=2,
    max_steps=20,
    save_steps=3,
    eval_steps=7,
    logging_steps=2,
)
ROOT = Path(__file__).parents[2]


def score(model):
    """Return a score that is best at step 14."""
    return {"score": -abs(model.bam_step.item() - 14), "norm": model.classifier.weight.norm().item()}


def go(folder, collator=collate, **options):
    """A run with noise, dropout, annealing, accumulation, batches of similar length and evaluations."""
    model = classifier()
    state = train(
        model, examples(), collator, RECIPE, folder, best_model=BestModelTracker(score, "score"), seed=3, **options
    )
    return model, state


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, *go(folder)


def check(folder, model, state, uninterrupted):
    """Compare best weights, last weights, optimizer, log and scores: all are bit-equal."""
    other_folder, other_model, other_state = uninterrupted
    assert same(weights(model), weights(other_model))
    assert state == other_state
    for file in ("model.safetensors", "optimizer.safetensors", "state.json"):
        last = Path("checkpoints", "step-00000020", file)
        assert (folder / last).read_bytes() == (other_folder / last).read_bytes()
    assert log(folder) == log(other_folder)


def log(folder):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [{name: value for name, value in line.items() if name != "samples_per_second"} for line in lines]


class Stopped(Exception):
    pass


def stopping_at(batch):
    """Return a collator that fails at this batch."""
    left = iter(range(batch))

    def collator(features):
        if next(left, None) is None:
            raise Stopped
        return collate(features)

    return collator


@pytest.mark.parametrize("batch", [0, 9, 15, 39])
def test_interrupted(batch, tmp_path, uninterrupted):
    """Before the first checkpoint, within a step, after one and just before the end."""
    with pytest.raises(Stopped):
        go(tmp_path, stopping_at(batch))
    random.random(), torch.rand(3)  # the random state of this process has no effect
    check(tmp_path, *go(tmp_path, resume=True), uninterrupted)


def test_an_incomplete_checkpoint(tmp_path, uninterrupted):
    with pytest.raises(Stopped):
        go(tmp_path, stopping_at(15))
    (last,) = (tmp_path / "checkpoints").glob("step-00000007")  # the first evaluation is the best so far
    content = (last / "optimizer.safetensors").read_bytes()
    (last / "optimizer.safetensors").write_bytes(content[: len(content) // 2])
    check(tmp_path, *go(tmp_path, resume=True), uninterrupted)


def test_a_finished_run(uninterrupted):
    folder, *_ = uninterrupted
    check(folder, *go(folder, resume=True, collator=stopping_at(0)), uninterrupted)


def test_without_resume_training_starts_again(tmp_path, uninterrupted):
    with pytest.raises(Stopped):
        go(tmp_path, stopping_at(15))
    check(tmp_path, *go(tmp_path), uninterrupted)


def test_other_settings_raise(tmp_path):
    with pytest.raises(Stopped):
        go(tmp_path, stopping_at(15))
    rows, best_model = examples(), BestModelTracker(score, "score")
    with pytest.raises(ValueError, match=r"was made with learning_rate=0.005, and this run has 0.001"):
        train(
            classifier(),
            rows,
            collate,
            RECIPE.replace(learning_rate=1e-3),
            tmp_path,
            best_model=best_model,
            seed=3,
            resume=True,
        )
    with pytest.raises(ValueError, match=r"was made with seed=3, and this run has 4"):
        train(classifier(), rows, collate, RECIPE, tmp_path, best_model=best_model, seed=4, resume=True)
    with pytest.raises(ValueError, match=r"was made with examples=22, and this run has 20"):
        train(classifier(), examples(20), collate, RECIPE, tmp_path, best_model=best_model, seed=3, resume=True)


def test_killed(tmp_path, uninterrupted):
    """`kill -9`: between two checkpoints, after an evaluation, and while a checkpoint is written."""
    program = f"from tests.training.test_resume import kill_often; kill_often({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    ends = [line for line in done.stdout.splitlines() if not line.startswith("step")]
    assert ends == ["killed"] * 4 + ["finished"]
    check(tmp_path, *go(tmp_path, resume=True), uninterrupted)


def kill_often(folder):
    """Fork one run after the other, in a separate process, and kill all but the last."""
    folder = Path(folder)

    def logged(step):
        log = folder / "log.jsonl"
        return lambda: log.exists() and f'"step": {step},' in log.read_text()

    def writing():
        return any(folder.glob("checkpoints/.step-*/*"))

    for moment in (logged(2), logged(8), writing, logged(16), None):
        child = os.fork()
        if child == 0:
            go(folder, lambda features: (time.sleep(0.01), collate(features))[1], resume=True)
            os._exit(0)
        while moment is not None and not moment():
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the run ended before it could be killed"
            time.sleep(2e-4)
        if moment is not None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "finished" if status == 0 else "failed", flush=True)
