"""Content of a report, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .. import metrics
from ..comparison import Comparison
from ..findings import Findings, Judged, judged_of
from . import columns as methods
from . import examples as rows
from .escaping import data_address, environment, script_hash, writable
from .pictures import make_pictures
from .resampling import draws

EXAMPLES, EXAMPLES_IN_MARKDOWN = 10, 5
"""Length of the lists of examples."""
PACKAGES = ("hf_bam", "torch", "transformers")
"""Packages whose versions a report names."""
SCRIPT = "report.js"


def report(
    comparison: Comparison | Findings,
    directory: str | Path,
    title: str = "Predictions and their uncertainty",
    *,
    method: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write `report.html`, one self-contained page, `report.md` for a model card, and their figures.

    Args:
        comparison: the methods on a labelled set.
        directory: folder to write to; created if it does not exist.
        title: heading of the page.
        method: method whose most uncertain inputs and most confident errors are listed. None: of the methods with
            several samples, the one whose uncertainty ranks the errors best (lowest AURC).
        about: what the report is about, by name: model, data, seed. Date and versions are added.

    Returns:
        The path of `report.html`.
    """
    check(comparison, method)
    folder = Path(directory)
    judged = judged_of(comparison) if isinstance(comparison, Comparison) else comparison.judged
    chosen = method or best_ranking(judged)
    content = {
        "title": title,
        "about": {**(about or {}), **circumstances()},
        "conclusion": comparison.recommendation,
        "number": len(comparison.texts),
        "pictures": make_pictures(comparison, judged, folder),
        "chosen": chosen,
        "sampled": any("±" in text for text in judged[chosen].confidence),
        "sample_counts": {name: sample_count(own) for name, own in judged.items()},
        **of_kind(comparison),
        **of_table(comparison),
        **of_rows(comparison, judged[chosen]),
        "csv": data_address(rows.as_csv(comparison, judged), "text/csv;charset=utf-8"),
        **script(),
    }
    for name in ("report.html", "report.md"):
        text = environment().get_template(f"{name}.j2").render(content)
        (folder / name).write_text(writable(text), encoding="utf-8")
    return folder / "report.html"


def check(comparison: Comparison | Findings, method: str | None) -> None:
    """Raise `ValueError` for parts of a comparison that do not fit each other, and for an unknown method."""
    names = comparison.judged if isinstance(comparison, Findings) else comparison.outcomes
    if not names:
        raise ValueError("comparison.outcomes is empty; it must hold {method: Outcome} for at least one method.")
    if method is not None and method not in names:
        raise ValueError(f"method={method!r} was not compared; choose one of {', '.join(names)}.")
    if isinstance(comparison, Findings):
        return
    wanted = (len(comparison.labels), len(comparison.label_names))
    for name, outcome in comparison.outcomes.items():
        if outcome.samples.ndim != 3 or outcome.samples.shape[1:] != wanted:
            raise ValueError(
                f"comparison.outcomes[{name!r}].samples has shape {outcome.samples.shape}; expected "
                f"(samples, {wanted[0]}, {wanted[1]}), as there are {wanted[0]} labels and {wanted[1]} label_names."
            )
    if len(comparison.texts) != wanted[0]:
        raise ValueError(
            f"comparison.texts has {len(comparison.texts)} entries; expected {wanted[0]}, as many as labels."
        )


def best_ranking(judged: Mapping[str, Judged]) -> str:
    """Return the method of lowest AURC, among those with several samples if there are any."""
    sampled = [name for name, own in judged.items() if own.num_samples.max() > 1]
    return min(sampled or judged, key=lambda name: metrics.aurc(judged[name].losses, judged[name].uncertainty))


def circumstances() -> dict[str, str]:
    """Return the date and the versions of the packages."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # used from a folder that is not installed
            continue
    versions = ", ".join(f"{name} {own}" for name, own in found.items())
    return {"date": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC", "versions": versions}


def of_kind(found: Comparison | Findings) -> dict[str, Any]:
    """Return the content that depends on the kind of the model."""
    if isinstance(found, Findings):
        return {"classes": [], "ood": 0, "loss": found.loss, "is_regression": found.targets is not None}
    ood = next(iter(found.ood.values())).samples.shape[1] if found.ood else 0
    return {"classes": found.label_names, "ood": ood, "loss": "error rate", "is_regression": False}


def of_table(found: Comparison | Findings) -> dict[str, Any]:
    """Return the content about the table of methods."""
    names = [str(row["method"]) for row in found.table]
    loss = found.loss if isinstance(found, Findings) else "loss"
    made = methods.make_columns(found.table, draws(found) if names else {}, loss)
    return {
        "methods": names,
        "columns": made,
        "methods_in_markdown": methods.in_markdown(names, made) if names else "",
        "has_bold": any(cell.best for column in made for cell in column.cells),
    }


def of_rows(found: Comparison | Findings, own: Judged) -> dict[str, Any]:
    """Return the content about single inputs."""
    order = np.argsort(-own.uncertainty, kind="stable")
    numbers = isinstance(found, Findings) and found.targets is not None
    wrong = own.losses > (np.median(own.losses) if numbers else 0)
    mistakes = [index for index in order[::-1] if wrong[index]]
    uncertain = rows.make_examples(found, own, order[:EXAMPLES])
    return {
        "uncertain": uncertain,
        "uncertain_in_markdown": rows.in_markdown(uncertain[:EXAMPLES_IN_MARKDOWN]),
        "mistakes": rows.make_examples(found, own, mistakes[:EXAMPLES]),
        "mistake_count": len(mistakes),
        "graded": isinstance(found, Findings),
    }


def sample_count(own: Judged) -> str:
    """Return the number of samples per input in words."""
    low, high = int(own.num_samples.min()), int(own.num_samples.max())
    if low == high:
        return "1 sample" if low == 1 else f"{low} samples"
    return f"{low} to {high} samples, {own.num_samples.mean():.1f} on average"


def script() -> dict[str, str]:
    """Return the script that sorts tables, with the hash by which the page allows it and nothing else."""
    loader: Any = environment().loader
    text = loader.get_source(environment(), SCRIPT)[0].strip()
    return {"script": text, "script_hash": script_hash(text)}
