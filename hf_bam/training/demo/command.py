"""Command line of the demo: `hf-bam demo`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset

from ...demo import Session, export, launch
from ...tasks.custom import Custom
from ..building import packaged
from ..evaluate.settings import COLUMNS
from ..evaluate.sources import class_names
from ..options import SWITCH, Parser, add_option, keywords
from .settings import DemoSettings

METAVARS = {"model_name_or_path": "NAME", "train": "FILE", "held_out": "FILE"}
MORE: dict[str, dict[str, Any]] = {
    "examples": {"nargs": "+", "metavar": "TEXT", "help": "Texts to choose from on the page."},
    "export": {
        "metavar": "FOLDER",
        "help": "Write a Hugging Face Space with the same page to this folder, and serve nothing: app.py, "
        "requirements.txt, README.md and the model.",
    },
    "debug": {**SWITCH, "help": "Show the traceback of an error."},
}
ABOUT = (
    "Serve a page in the browser that shows a prediction with its interval, its aleatoric and epistemic uncertainty, "
    "its novelty, its prediction set, its samples, and the attention to the tokens. Needs the extra demo."
)


def make_parser(prog: str | None = None) -> Parser:
    """Return the parser; the destination of an option is `group.field`."""
    parser = Parser(prog, "%(prog)s --model_name_or_path FOLDER [options]", description=ABOUT)
    group = parser.add_argument_group("demo")
    for item in dataclasses.fields(DemoSettings):
        own = {"metavar": METAVARS[item.name]} if item.name in METAVARS else {}
        add_option(group, f"demo.{item.name}", {**keywords(DemoSettings, item, default=True), **own})
    for name, options in MORE.items():
        add_option(group, f"more.{name}", options)
    return parser


def parse(argv: Sequence[str], prog: str | None = None) -> tuple[DemoSettings, dict[str, Any]]:
    """Return the settings of a command line, and its further options by name."""
    given: dict[str, dict[str, Any]] = {"demo": {}, "more": {}}
    for name, value in vars(make_parser(prog).parse_args(argv)).items():
        group, _, key = name.partition(".")
        given[group][key] = value
    if "model_name_or_path" not in given["demo"]:
        raise ValueError("--model_name_or_path is not given; name the folder of a trained model.")
    return DemoSettings(**given["demo"]), given["more"]


def make_session(settings: DemoSettings) -> Session:
    """Return the loaded model, fitted to the files of the command line."""
    options: dict[str, Any] = {} if settings.num_samples is None else {"num_samples": settings.num_samples}
    session = Session.load(packaged(settings.model_name_or_path), dropout=settings.dropout, **options)
    predictor = session.predictor
    given = {"train": settings.train, "held_out": settings.held_out}
    files = {name: rows_of(session, Path(path)) for name, path in given.items() if path is not None}
    if files and session.kind != "classification":
        raise ValueError(f"--{next(iter(files))} is for classification; this model has head={session.kind!r}.")
    if "train" in files:
        predictor.fit(*files["train"], held_out=files["held_out"][0] if "held_out" in files else None)
    if "held_out" in files:
        predictor.conformal(*files["held_out"], alpha=settings.alpha)
    return session


def rows_of(session: Session, path: Path) -> tuple[list[Any], list[Any]]:
    """Return the texts and the labels of a file."""
    reader = Custom(COLUMNS["text_column"], COLUMNS["label_column"])
    rows: Dataset = reader.read(path, class_names(session.predictor.sampler.model), labelled=True)
    return reader.inputs(rows), reader.labels(rows) or []


def start(argv: Sequence[str], prog: str) -> None:
    """Serve the page of a command line, or export it."""
    settings, more = parse(argv, prog)
    examples = [[text] for text in more["examples"]] if "examples" in more else None
    options: dict[str, Any] = {"title": settings.title, "examples": examples}
    if "export" in more:
        if settings.train is not None or settings.held_out is not None:
            raise ValueError(
                "--train and --held_out are not part of an export; save a fitted predictor, "
                "predictor.save_pretrained(folder), and export that folder."
            )
        model = packaged(settings.model_name_or_path)
        options |= {"num_samples": settings.num_samples, "dropout": settings.dropout}
        written = export(more["export"], model, **options)
        print("Written: " + ", ".join(map(str, written)))
        return
    session = make_session(settings)
    options |= {"server_name": settings.host, "server_port": settings.port}
    try:
        page = launch(session, quiet=True, prevent_thread_lock=True, **options)
    except OSError as error:
        raise ValueError(
            f"--host {settings.host} --port {settings.port}: this address cannot be served; it may be in use. Choose "
            "another --port."
        ) from error
    print(f"{session.name} is shown at {page.local_url} (Ctrl-C ends it).", flush=True)
    page.block_thread()
