"""SIGINT and SIGTERM: training saves a checkpoint, and the resumed run ends at the same weights."""

import os
import signal
import threading
import time

import pytest

from hf_bam.training import signals
from hf_bam.training.signals import Interrupted, collected, interrupting

from .cases import collate
from .test_resume import check, go, uninterrupted  # noqa: F401  (a fixture)


def signalling_at(batch, *numbers):
    """Return a collator that sends signals to this process at a batch."""
    left = iter(range(batch))

    def collator(features):
        if next(left, None) is None:
            for number in numbers:
                os.kill(os.getpid(), number)
        return collate(features)

    return collator


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_checkpoint_is_saved(number, tmp_path, uninterrupted):  # noqa: F811
    with pytest.raises(Interrupted, match="Interrupted after step 5, of which there is a checkpoint") as stop:
        go(tmp_path, signalling_at(9, number))
    assert stop.value.number == number
    assert (tmp_path / "checkpoints" / "step-00000005").is_dir()
    assert go(tmp_path, resume=True)[1] == uninterrupted[2]
    last = "checkpoints/step-00000020/model.safetensors"
    assert (tmp_path / last).read_bytes() == (uninterrupted[0] / last).read_bytes()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_arrive_together_are_one(first):
    """A cluster sends SIGTERM to `torchrun` and to its processes, to which `torchrun` sends it again."""
    with collected() as stop:
        for number in (first, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert stop.number == first


def test_a_later_interrupt_ends_at_once(monkeypatch):
    monkeypatch.setattr(signals, "TOGETHER", 0.05)
    with collected() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_end_of_a_run_is_not_interrupted_twice():
    with interrupting():
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with collected():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_other_threads_leave_the_signals_alone():
    def enter():
        with collected() as stop:
            found.append(stop.number)

    found = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [0]


def test_exit_codes(start, monkeypatch, capsys):
    """A cluster sends SIGTERM before it kills."""
    assert start.signalled(signal.SIGTERM) == 143
    assert "Interrupted after step 2, of which there is a checkpoint. Add --resume" in capsys.readouterr().err
    assert start("--resume") == 0
    assert not (start.folder / "checkpoints").exists()
