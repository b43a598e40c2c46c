"""Progress of a run: a progress bar, a log of JSON lines, and trackers."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from ..fields import parse_json
from ..patching.state import patch_of
from .files import write_text

logger = logging.getLogger(__name__)

TERMS = ("loss", "task_loss", "kl", "consistency")
SHOWN = {"loss": "loss", "task_loss": "task", "kl": "kl", "kl_weight": "weight", "consistency": "consistency"}
SHOWN |= {"samples_per_second": "rows/s"}
"""Values of a line of the log that the progress bar shows, and their names there."""
LINES = 20
"""Lines about the training of a run, at most, where there is no terminal."""
LATENT = ("latent_kl", "commitment", "perplexity")
"""Terms and values of latent variables of the memory, which few models have."""
Log = Callable[[str], None]
"""A function that takes lines of text for people, such as `print`."""


class RunLogger:
    """Logger of a run, which averages the terms of the loss between two lines of the log.

    Args:
        path: file of the log. Lines after `step`, which an interrupted run may have left, are removed.
        step: optimizer step at which the run starts or resumes.
        total: its last step.
        names: terms of the loss that the log has.
        log: takes lines of text, which appear above the progress bar.
    """

    def __init__(
        self, path: Path, accelerator: Accelerator, step: int, total: int, names: Collection[str], log: Log = print
    ) -> None:
        self.path, self.accelerator, self.names, self.log = path, accelerator, names, log
        self.seconds, self.examples, self.steps = 0.0, 0, 0
        self.terms: Tensor | float = 0.0
        self.total, self.shown = total, step
        hidden = None if accelerator.is_main_process else True  # None: hidden where there is no terminal
        self.bar = tqdm(total=total, initial=step, unit="step", disable=hidden, dynamic_ncols=True)
        if accelerator.is_main_process:
            write_text(path, "".join(_lines_up_to(path, step)))
        self.start_timer()

    def start_timer(self) -> None:
        """Start to measure the time of the next step; evaluations and checkpoints are left out."""
        self.started = time.perf_counter()

    def update(self, terms: Tensor, examples: int) -> None:
        """Add a step to the averages.

        Args:
            terms: (4,) the terms of `TERMS`; read only when a line is written, so that a GPU need not wait.
            examples: of all processes.
        """
        self.terms = self.terms + terms
        self.examples += examples
        self.steps += 1
        self.seconds += time.perf_counter() - self.started
        self.bar.update()

    def log_averages(self, step: int, **values: float) -> None:
        """Write the averages since the last line, and further values."""
        assert isinstance(self.terms, Tensor)
        mean = self.accelerator.reduce(self.terms / self.steps, "mean").tolist()
        line = {name: value for name, value in zip(TERMS, mean, strict=True) if name in self.names}
        if not math.isfinite(mean[0]):
            raise FloatingPointError(
                f"The loss is {mean[0]} at step {step}. A lower learning_rate, more warmup_steps or precision='fp32' "
                "may help."
            )
        line |= values | {"samples_per_second": self.examples / self.seconds}
        shown = {short: f"{line[name]:.3g}" for name, short in SHOWN.items() if name in line}
        self.bar.set_postfix(shown, refresh=False)
        self.show(step, shown)
        self.log_values(step, line)
        self.seconds, self.examples, self.steps, self.terms = 0.0, 0, 0, torch.zeros_like(self.terms)

    def show(self, step: int, values: dict[str, str]) -> None:
        """Show a line in place of the progress bar where there is no terminal, about twenty of them in a run."""
        if self.bar.disable and (step - self.shown >= self.total / LINES or step == self.total):
            self.shown = step
            self.log_text(f"step {step} of {self.total}:  " + "  ".join(f"{key} {own}" for key, own in values.items()))

    def log_values(self, step: int, values: dict[str, Any], group: str = "train") -> None:
        """Write a line to the log and to the trackers, where names are `train/loss` and `eval/accuracy`.

        Args:
            group: beginning of the names in the trackers.
        """
        if self.accelerator.is_main_process:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **values}) + "\n")
        self.accelerator.log({f"{group}/{name}": value for name, value in values.items()}, step=step)

    def log_text(self, text: str) -> None:
        """Show a line of text above the progress bar."""
        if self.accelerator.is_main_process:
            with self.bar.external_write_mode():
                self.log(text)

    def close(self) -> None:
        self.bar.close()


def latent_values(model: PreTrainedModel) -> dict[str, float]:
    """Return the means of the values of `LATENT` since the last call, on this process."""
    means = patch_of(model).runtime.meter.pop()
    return {name: float(means[name]) for name in LATENT if name in means}


def _lines_up_to(path: Path, step: int) -> list[str]:
    """Return the complete lines of a log for the steps up to this one."""
    if step == 0 or not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found = [(line, _step(line)) for line in lines[:-1]]  # the last one is empty, or the process was killed in it
    damaged = sum(own is None for _, own in found)
    if damaged:
        logger.warning("%s: %d damaged lines are left out.", path, damaged)
    return [f"{line}\n" for line, own in found if own is not None and own <= step]


def _step(line: str) -> int | None:
    """Return the step of a line of the log; None if the line is damaged."""
    try:
        step = parse_json(line)["step"]
    except (ValueError, LookupError, TypeError):
        return None
    return step if isinstance(step, int) else None
