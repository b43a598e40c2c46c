"""Two processes (gloo) train as one process does."""

import contextlib
import os
import signal
from unittest import mock

import pytest
import torch
from accelerate import PartialState

from hf_bam.cli import main
from hf_bam.training import BestModelTracker, Recipe, signals, train
from hf_bam.training.checkpoints import Checkpoints
from hf_bam.training.signals import Interrupted

from ..processes import launch
from .cases import NO_DROPOUT, classifier, collate, examples, pairs, same, translator, weights
from .test_loop import close
from .test_resume import Stopped, score, stopping_at
from .test_run import SHORT, results
from .test_sampled_loss import quiet

RECIPE = Recipe(
    learning_rate=5e-3,
    batch_size=8,
    gradient_accumulation_steps=2,
    max_steps=6,
    save_steps=2,
    logging_steps=1,
    eval_steps=4,
)
SAMPLES = {"consistency": 0.7, "num_train_samples": 2, "learning_rate": 1e-3}
ENSEMBLE = {"ensemble_checkpoints": 2, "ensemble_tail": 0.7, "average_checkpoints": True}
DETERMINISTIC = {
    "classifier": (lambda: classifier(plain=True, **NO_DROPOUT), examples, RECIPE),
    "translator": (translator, pairs, RECIPE),
    "samples": (lambda: quiet(translator()), pairs, RECIPE.replace(**SAMPLES)),
    "ensemble": (lambda: classifier(plain=True, **NO_DROPOUT), examples, RECIPE.replace(**ENSEMBLE)),
}
"""Models without noise, whose weights do not depend on the division of the work."""


def work(folder, custom):
    """Train and run commands, in each process."""
    for name, (make, rows, recipe) in DETERMINISTIC.items():
        train(model := make(), rows(), collate, recipe, folder / name)
        save_weights(model, folder / f"{name}.pt")
    best_model = BestModelTracker(score, "score")
    train(model := classifier(), examples(), collate, RECIPE, folder / "noisy", best_model=best_model)
    save_weights(model, folder / "noisy.pt")
    try:
        train(classifier(), examples(), stopping_at(9), RECIPE, folder / "stopped", best_model=best_model)
    except Stopped:
        train(
            model := classifier(), examples(), collate, RECIPE, folder / "stopped", best_model=best_model, resume=True
        )
        save_weights(model, folder / "stopped.pt")
    signalled, rare = folder / "signalled", RECIPE.replace(logging_steps=1000)
    try:
        with mock.patch.object(signals, "INTERVAL", 0.0):  # these steps take milliseconds
            train(classifier(), examples(), signalling_at(7), rare, signalled, best_model=best_model)
    except Interrupted as stop:
        (folder / f"signal{PartialState().process_index}").write_text(f"{stop.number} {stop}")
        train(model := classifier(), examples(), collate, rare, signalled, best_model=best_model, resume=True)
        save_weights(model, folder / "signalled.pt")
    used = folder / "used"
    used.mkdir(exist_ok=True)
    (used / "log.jsonl").touch()
    short = ["custom", *custom, *SHORT, "--no_report"]
    assert main([*short, "--output", str(used)]) == 2  # the main process checks the folder, and both end
    assert main([*short, "--output", str(folder / "new"), "--data_dir", "nowhere"]) == 2
    assert (
        main(
            ["custom", *custom, *SHORT, "--samples", "2", "--no_report", "--seeds", "0", "1", "--output", str(folder)]
        )
        == 0
    )


def lose(folder, custom):
    """Run a command that finds no data in the second process, while the first one waits for it."""
    rank = os.environ["RANK"]
    with open(folder / f"errors{rank}", "w") as file, contextlib.redirect_stderr(file):
        missing = ["--data_dir", "nowhere"] if rank == "1" else []
        assert main(["custom", *custom, *SHORT, "--output", str(folder / "lost"), *missing]) == 2


def signalling_at(batch):
    """Return a collator that sends SIGTERM to the second process at a batch, twice."""
    left = iter(range(batch))

    def collator(features):
        if next(left, None) is None and PartialState().process_index == 1:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
        return collate(features)

    return collator


def save_weights(model, path):
    """Save the weights of each process."""
    torch.save(weights(model), f"{path}{PartialState().process_index}")


def read(path):
    return [torch.load(f"{path}{rank}", weights_only=True) for rank in range(2)]


@pytest.fixture(scope="module")
def folder(custom, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    launch(2, work, folder, custom)
    launch(2, lose, folder, custom)
    return folder


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_same_weights_as_one_process(folder, name, tmp_path):
    """Also if the processes have different numbers of tokens."""
    make, rows, recipe = DETERMINISTIC[name]
    train(model := make(), rows(), collate, recipe, tmp_path)
    for other in read(folder / f"{name}.pt"):
        close(weights(model), other)


def test_noise(folder):
    """The processes have different noise and the same weights."""
    one, other = read(folder / "noisy.pt")
    assert same(one, other)
    assert one["bam_step"].item() == 6
    randoms = Checkpoints(folder / "noisy" / "checkpoints").last().values()["random"]
    assert randoms[0]["torch"] != randoms[1]["torch"]


def test_resume(folder):
    for one, other in zip(read(folder / "noisy.pt"), read(folder / "stopped.pt"), strict=True):
        assert same(one, other)


def test_a_signal_to_one_process_ends_both_with_a_checkpoint(folder):
    """Long before the next line of the log."""
    text = "Interrupted after step 4, of which there is a checkpoint."
    assert [(folder / f"signal{rank}").read_text() for rank in range(2)] == [f"{signal.SIGTERM} {text}"] * 2
    for one, other in zip(read(folder / "noisy.pt"), read(folder / "signalled.pt"), strict=True):
        assert same(one, other)


def test_an_error_of_one_process_is_printed(folder):
    one, other = ((folder / f"errors{rank}").read_text().strip().splitlines()[-1] for rank in range(2))
    assert one == "error: the connection to another process is lost"
    assert other.startswith("process 1: error: ")
    assert "nowhere" in other


def test_an_error_before_the_processes_are_connected(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(PartialState, "_shared_state", {})
    assert main(["custom", "--text_column", "text", "--label_column", "label", "--lr", "0"]) == 2
    assert capsys.readouterr().err.startswith("process 1: error: Recipe.learning_rate=0")


def test_a_whole_run(folder):
    """The second seed of two; every row is scored once."""
    run = folder / "custom" / "seed-1"
    found = results(run)
    assert found["scores"]["validation"]["accuracy"] > 0.9
    assert [row["method"] for row in found["uncertainty"]["validation"]][1] == "BAM, 2 samples"
    lines = (run / "predictions" / "custom-validation.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == [str(i) for i in range(14)]
