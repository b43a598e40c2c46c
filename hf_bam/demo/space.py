"""Files of a Hugging Face Space that serves the page of a demo."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader

from .page import gradio
from .session import title_of

MODEL = "model"
"""Folder of the model in a Space."""
NOT_COPIED = shutil.ignore_patterns("checkpoint*", ".git", "optimizer*", ".cache")


def export(
    folder: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    title: str | None = None,
    examples: Sequence[Sequence[str]] | None = None,
    num_samples: int | None = None,
    dropout: float | None = None,
) -> list[Path]:
    """Write a Space: `app.py`, `requirements.txt`, `README.md` with its metadata, and a model that is a local folder.

    Args:
        folder: a new or an empty folder.
        model: folder of a model, which is copied, or its name on the Hub.
        title, examples, num_samples, dropout: as for `launch`.

    Returns:
        The paths of the files.
    """
    target, local = Path(folder), Path(model).is_dir()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} exists and is not an empty folder; choose another one.")
    name = title_of(str(model)) if local else str(model)
    rows = examples and [list(row) for row in examples]
    chosen = {"examples": rows, "num_samples": num_samples, "dropout": dropout}
    options = {"title": title or name, **{key: value for key, value in chosen.items() if value is not None}}
    header: dict[str, Any] = {
        "title": (title or name)[:60],
        "emoji": "🎲",
        "colorFrom": "blue",
        "colorTo": "yellow",
        "sdk": "gradio",
        "sdk_version": gradio().__version__,
        "app_file": "app.py",
        "pinned": False,
        "tags": ["hf_bam", "uncertainty"],
        **({} if local else {"models": [name]}),
    }
    content = {
        "local": local,
        "model": str(model),
        "folder": MODEL,
        "options": {key: repr(value) for key, value in options.items()},
        "title": title or name,
        "header": yaml.safe_dump(header, sort_keys=False, allow_unicode=True).strip(),
        "version": version("hf_bam"),
    }
    target.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        loader=PackageLoader("hf_bam.demo"), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    paths = []
    for file in ("app.py", "requirements.txt", "README.md"):
        paths.append(target / file)
        paths[-1].write_text(environment.get_template(f"{file}.j2").render(content), encoding="utf-8")
    if local:
        paths.append(Path(shutil.copytree(model, target / MODEL, ignore=NOT_COPIED)))
    return paths
