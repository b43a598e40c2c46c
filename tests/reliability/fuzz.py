"""Fuzzed inputs of the command line: whatever they are, an error is one sentence.

`python -m tests.reliability.fuzz --minutes 60` runs it for an hour; `test_fuzz.py` for some seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from hf_bam.cli import guarded
from hf_bam.integrations import serialization
from hf_bam.tasks.custom import Custom
from hf_bam.training.arguments import OWN, own_command, parse
from hf_bam.training.checkpoints import Checkpoints
from hf_bam.training.results import Result
from hf_bam.training.state import State

from . import strategies

SECONDS = 20
"""Time in which an input is read or is an error."""


def parse_command(command: str, options: list[str]) -> int:
    """Return the exit code of a command line, whose jobs are made and not run; any other exception is a failure."""

    def action(given: list[str]) -> None:
        own_command(command).parse(given) if command in OWN else parse(command, given)

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as error:
        try:
            code = guarded(action, options)
        except SystemExit as stop:
            code = int(stop.code or 0)
    assert code in (0, 2)
    if code == 2:
        last = error.getvalue().strip().splitlines()[-1]
        assert "error:" in last, last
        assert len(last) < 5000, "an error is a sentence"
    return code


def command_line(case: tuple[str, list[str]]) -> bool:
    return parse_command(*case) == 0


def settings_file(text: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        columns = ["--text_column", "text", "--label_column", "label"]
        return parse_command("custom", [*columns, "--config", str(path)]) == 0


def table(case: tuple[str, bytes]) -> bool:
    ending, content = case
    with tempfile.TemporaryDirectory() as folder:
        for name in ("train", "validation"):
            Path(folder, f"{name}{ending}").write_bytes(content)
        try:
            Custom("text", "label").load(Path(folder)).check_texts()
        except ValueError:
            return False
        return True


def bam_header(values: Any) -> bool:
    """Settings in the header of `bam.safetensors`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bam.safetensors")
        try:
            header = {"bam_format": "1", "bam_config": json.dumps(values), "architecture": "pipeline"}
        except ValueError:  # an integer with too many digits for Python
            return False
        save_file({"x": torch.ones(1)}, path, header)
        try:
            serialization.read(path)
        except ValueError:
            return False
        return True


def state_file(values: Any) -> bool:
    """Files of a run that are read when it is resumed."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "checkpoints", "step-00000001")
        checkpoint.mkdir(parents=True)
        try:
            text = json.dumps(values)
        except ValueError:
            return False
        for path in (checkpoint / "manifest.json", checkpoint / "state.json", Path(folder, "results.json")):
            path.write_text(text, encoding="utf-8")
        assert Checkpoints(Path(folder, "checkpoints")).last() is None
        with contextlib.suppress(ValueError):
            Result.read(Path(folder))
        try:
            State.read({"step": 1, "best": values, "waited": 0, "stopped": False})
        except ValueError:
            return False
        return True


PROPERTIES: dict[str, tuple[Callable[[Any], bool], st.SearchStrategy[Any]]] = {
    "command lines": (command_line, strategies.command_lines()),
    "settings files": (settings_file, strategies.settings_files()),
    "data files": (table, strategies.tables()),
    "headers of bam.safetensors": (
        bam_header,
        strategies.values
        | st.dictionaries(st.sampled_from(["family", "k", "d_mid", "layers", "prior", "x"]), strategies.values),
    ),
    "files of a run": (state_file, strategies.values),
}
"""Kinds of inputs: a function that fails where an input is handled badly, and the inputs."""


def fuzz(name: str, examples: int, counts: Counter[str]) -> None:
    """Try this many inputs of a kind."""
    check, inputs = PROPERTIES[name]

    @settings(
        max_examples=examples,
        deadline=SECONDS * 1000,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def run(case: Any) -> None:
        counts[f"{name}, {'read' if check(case) else 'an error in one sentence'}"] += 1

    run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    end, counts = time.monotonic() + 60 * parser.parse_args().minutes, Counter[str]()
    while time.monotonic() < end:
        for name in PROPERTIES:
            fuzz(name, 200, counts)
    print(*(f"{number:8d}  {name}" for name, number in sorted(counts.items())), sep="\n")
    print(f"{sum(counts.values()):8d}  inputs, 0 failures")


if __name__ == "__main__":
    main()
