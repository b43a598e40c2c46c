"""The command `hf-bam`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import datasets
import transformers
from accelerate import PartialState

HELP = """usage: hf-bam COMMAND [options]

Finetunes a model with Bayesian attention and says what it scores and how far its doubt can be trusted.

  hf-bam glue --task mrpc --model albert-base-v2 --output out/mrpc
  hf-bam squad --version 2.0 --output out/squad2
  hf-bam translation --dataset language --source en --target qaa --recipe fast

Commands: {commands}. `hf-bam COMMAND --help` names their options.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs a command: its name, then its options.

    Args:
        prog: what the usage message calls the program.

    Returns:
        0, or 2 where something is wrong with what was asked for or with the data.
    """
    from .training.arguments import commands

    command, *rest = list(sys.argv[1:] if argv is None else argv) or [""]
    if command not in commands():
        print(HELP.format(commands=", ".join(commands())))
        return 0 if command in ("-h", "--help") else 2
    return guarded(lambda options: start(command, options, prog or f"hf-bam {command}"), rest)


def start(command: str, argv: Sequence[str], prog: str) -> None:
    from .training import run, run_all
    from .training.arguments import parse

    request = parse(command, argv, prog)
    if len(request.jobs) == 1:
        run(request.jobs[0], request.output, **request.options)
    else:
        run_all(request.jobs, request.output, **request.options)
    PartialState().destroy_process_group()


def guarded(action: Callable[[list[str]], object], argv: Sequence[str]) -> int:
    """Does it without the noise of libraries; shows one line of an error, unless `--debug` is among the options."""
    quieten()
    try:
        action([_underscored(argument) for argument in argv])
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on from the last checkpoint", file=sys.stderr)
        return 130
    except (ValueError, FloatingPointError, OSError) as error:
        if "--debug" in argv:
            raise
        if os.environ.get("RANK", "0") == "0":  # the other processes have met the same error
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def quieten() -> None:
    """No bars and hints of libraries among our own lines."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()


def _underscored(argument: str) -> str:
    """`--batch-size` is `--batch_size`."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


if __name__ == "__main__":
    sys.exit(main())
