"""The command `hf-bam`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from safetensors import SafetensorError

from .extras import MissingExtraError, check_extra
from .fields import shown

COMMANDS = (
    "glue",
    "autoencode",
    "clinc150",
    "custom",
    "sentiment",
    "squad",
    "text2text",
    "translation",
    "vqa",
    "graph",
    "evaluate",
    "predict",
    "demo",
)
"""Commands of `hf_bam.training.arguments`, whose import takes seconds."""
HELP = """usage: hf-bam COMMAND [options]

Finetune a model with Bayesian attention, evaluate it and measure its uncertainty.

  hf-bam glue --task_name mrpc --model_name_or_path albert-base-v2 --output_dir out/mrpc
  hf-bam squad --version 2.0 --output_dir out/squad2
  hf-bam translation --dataset language --source en --target qaa --recipe fast
  hf-bam text2text --data_dir data/questions --source src --target tgt --model recurrent --recipe fast
  hf-bam autoencode --data_dir data/texts --num_codes 128 --recipe fast
  hf-bam graph --dataset cora --data_dir data/planetoid --variant gat wc
  hf-bam evaluate --model_name_or_path out/mrpc/model --data my.csv --ood other.csv
  hf-bam predict --model_name_or_path out/mrpc/model --input my.csv --output predictions.csv
  hf-bam demo --model_name_or_path out/mrpc/model

Commands: {commands}.
`hf-bam COMMAND --help` lists the options of a command, `hf-bam --version` shows the version.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run a command: its name, then its options.

    Args:
        prog: name of the program in the usage message.

    Returns:
        0 for success, 2 for an error in the options or the data, 130 or 143 after an interruption.
    """
    command, *rest = list(sys.argv[1:] if argv is None else argv) or [""]
    if command == "--version":
        print(f"hf_bam {version('hf_bam')}")
        return 0
    if command not in COMMANDS:
        known = ", ".join(COMMANDS)
        if command not in ("", "-h", "--help"):
            print(f"error: {shown(command)} is not a command; choose one of {known}.", file=sys.stderr)
            return 2
        print(HELP.format(commands=known))
        return 0 if command else 2
    resumes = command not in ("graph", "evaluate", "predict", "demo")
    return guarded(lambda options: start(command, options, prog or f"hf-bam {command}"), rest, resumes)


def start(command: str, argv: Sequence[str], prog: str) -> None:
    """Run the jobs of a command line."""
    from accelerate import PartialState

    from .training import run, run_all
    from .training.arguments import OWN, own_command, parse

    if command in OWN:
        own_command(command).start(argv, prog)
        return
    request = parse(command, argv, prog)
    if len(request.jobs) == 1:
        run(request.jobs[0], request.output, **request.options)
    else:
        run_all(request.jobs, request.output, **request.options)
    PartialState().destroy_process_group()


def guarded(action: Callable[[list[str]], object], argv: Sequence[str], resumes: bool = True) -> int:
    """Run an action without messages of libraries; print an error as one line, unless `--debug` is given.

    Args:
        resumes: the action can resume after an interruption.
    """
    try:
        check_extra("train", "hf-bam")
        from .training.signals import interrupting

        quieten()
        with interrupting():
            action([_underscored(argument) for argument in argv])
    except KeyboardInterrupt as stop:
        hint = " Add --resume_from_checkpoint to continue from the last checkpoint." if resumes else ""
        _print(f"\n{stop or 'Interrupted.'}{hint}")
        return 128 + getattr(stop, "number", signal.SIGINT)
    except MissingExtraError as error:
        _print(f"error: {error}", error)
        return 2
    except (ValueError, FloatingPointError, OSError, MemoryError, SafetensorError, RuntimeError) as error:
        from torch.distributed import DistError

        text = " ".join(str(error).split()) or type(error).__name__
        lost = isinstance(error, DistError) or "gloo" in text  # another process ended
        if "--debug" in argv or (isinstance(error, RuntimeError) and not lost):
            raise
        _print(f"error: {'the connection to another process is lost' if lost else text}", error)
        return 2
    return 0


def _print(text: str, error: Exception | None = None) -> None:
    """Print a message of the main process, and an error of any process, except one that the main process raised."""
    rank = os.environ.get("RANK", "0")
    if rank == "0":
        print(text, file=sys.stderr)
    elif error is not None:
        from .training.folder import MainError

        if not isinstance(error, MainError):
            print(f"process {rank}: {text}", file=sys.stderr)


def quieten() -> None:
    """Turn off progress bars and hints of libraries."""
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()


def _underscored(argument: str) -> str:
    """Return an option with underscores: `--batch-size` is `--batch_size`."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


if __name__ == "__main__":
    sys.exit(main())
