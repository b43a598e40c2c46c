"""Command line of predictions: `hf-bam predict`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from ..options import SWITCH, Parser, add_option, keywords
from .run import predict
from .settings import Prediction

ABOUT = (
    "Predict the rows of a file or a data set with a trained model, and write them with the prediction, its "
    "probability and its uncertainty."
)
GROUPS = {
    "model_name_or_path": "model and data",
    "train": "fits",
    "num_samples": "prediction",
}
"""First option of each group of the help."""
OWN: dict[str, dict[str, Any]] = {
    "model_name_or_path": {"metavar": "NAME", "required": True},
    "input": {"metavar": "FILE", "required": True},
    "output": {"metavar": "FILE"},
    "overwrite": {**SWITCH, "help": "Replace the file of --output."},
    "train": {"metavar": "FILE"},
    "held_out": {"metavar": "FILE"},
}
"""Keywords of options that fields do not tell."""


def make_parser(prog: str | None = None) -> Parser:
    """Return the parser; the destination of an option is `prediction.field`."""
    usage = "%(prog)s --model_name_or_path FOLDER --input FILE --output FILE [options]"
    parser = Parser(prog, usage, description=ABOUT)
    group: Any = None
    for item in dataclasses.fields(Prediction):
        if item.name in GROUPS:
            group = parser.add_argument_group(GROUPS[item.name])
        own = OWN.get(item.name, {})
        usual = {} if "action" in own else keywords(Prediction, item, default=True)
        add_option(group, f"prediction.{item.name}", {**usual, **own})
    add_option(group, "run.debug", {**SWITCH, "help": "Show the traceback of an error."})
    return parser


def parse(argv: Sequence[str], prog: str | None = None) -> Prediction:
    """Return the settings of a command line."""
    given = vars(make_parser(prog).parse_args(argv))
    names = {name.partition(".")[2]: value for name, value in given.items() if name.startswith("prediction.")}
    return Prediction(**names)


def start(argv: Sequence[str], prog: str) -> None:
    """Run the prediction of a command line; the rows go to standard output only if there is no file for them."""
    settings = parse(argv, prog)
    predict(settings, log=lambda text: print(text, file=sys.stderr if settings.output is None else sys.stdout))
