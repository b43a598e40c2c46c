"""Logger of a run: names in trackers, lines where there is no terminal, and the header."""

import json
from importlib.metadata import version

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.tracking import GeneralTracker, on_main_process

from hf_bam.training.environment import environment, slow_precision
from hf_bam.training.logger import RunLogger


class Memory(GeneralTracker):
    """Tracker of Accelerate that keeps what it gets."""

    name = "memory"
    requires_logging_directory = False

    def __init__(self):
        super().__init__()
        self.logged = []

    @property
    def tracker(self):
        return self

    @on_main_process
    def store_init_configuration(self, values):
        pass

    @on_main_process
    def log(self, values, step=None, **kwargs):
        self.logged.append((step, values))


def test_names_and_lines(tmp_path):
    tracker, lines = Memory(), []
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("test")
    logger = RunLogger(tmp_path / "log.jsonl", accelerator, 0, 100, ["loss", "kl"], lines.append)
    for step in range(1, 101):
        logger.update(torch.tensor([1.0, 0.5, 0.25, 0.0]), 8)
        logger.log_averages(step, learning_rate=0.1)
    logger.log_values(100, {"accuracy": 0.75}, "eval")
    logger.close()
    step, values = tracker.logged[0]
    assert step == 1
    assert {"train/loss": 1.0, "train/kl": 0.25, "train/learning_rate": 0.1}.items() <= values.items()
    assert tracker.logged[-1] == (100, {"eval/accuracy": 0.75})
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["loss"] == 1.0
    assert len(lines) == 20  # standard error is not a terminal here
    assert lines[-1].startswith("step 100 of 100:  loss 1  kl 0.25  rows/s ")


def test_the_header_names_device_processes_and_versions():
    text = environment(Accelerator(cpu=True))
    assert text.startswith("1 process on cpu (")
    assert f"transformers {version('transformers')}" in text
    assert f"torch {torch.__version__}" in text


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_the_header_warns_of_a_precision_that_the_cpu_does_not_have(precision):
    AcceleratorState._reset_state()
    text = slow_precision(Accelerator(cpu=True, mixed_precision=precision))
    AcceleratorState._reset_state()
    slow = precision == "bf16" and torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    assert (text is not None) == slow
    assert text is None or text.startswith("Warning: this CPU has no instructions for bf16, ")
