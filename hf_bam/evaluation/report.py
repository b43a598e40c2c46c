"""HTML and Markdown report on a comparison of methods."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from matplotlib.figure import Figure
from numpy.typing import NDArray

from . import metrics, plots, tables
from .comparison import Comparison
from .metrics._arrays import predicted_classes
from .outcomes import Outcome
from .tables import escape_markdown as _markdown

LOWER_IS_BETTER = frozenset({"nll", "ece", "mce", "brier", "aurc", "e_aurc", "fpr95", "set_size", "seconds"})
"""Measures of which less is better; of all others more is."""
NOT_RANKED = frozenset({"epistemic", "set_coverage", "passes"})
"""Measures that are neither better nor worse."""
NAMES = {
    "nll": "NLL",
    "ece": "ECE",
    "mce": "MCE",
    "brier": "Brier",
    "aurc": "AURC",
    "e_aurc": "E-AURC",
    "fpr95": "FPR95",
    "pavpu": "PAvPU",
    "error_auroc": "error AUROC",
    "error_aupr": "error AUPR",
    "ood_auroc": "OOD AUROC",
    "novelty_auroc": "novelty AUROC",
}
"""Headers of measures, where they are not the name itself."""
DASH = "—"
EXAMPLES, EXAMPLES_IN_MARKDOWN = 10, 5
"""Length of the lists of examples."""


@dataclass(frozen=True)
class Picture:
    """Figure as a file beside the page and as a data address inside it."""

    caption: str
    link: str
    data: str


@dataclass(frozen=True)
class Example:
    """Input with the prediction of one method; numbers as text."""

    text: str
    prediction: str
    label: str
    probability: str
    uncertainty: str
    correct: bool


@dataclass(frozen=True)
class Column:
    """One measure of all methods: values as text, which of them are the best, and the direction of better."""

    name: str
    arrow: str
    cells: list[str]
    best: list[bool]


def report(
    comparison: Comparison,
    directory: str | Path,
    title: str = "Predictions and their uncertainty",
    *,
    method: str | None = None,
) -> Path:
    """Write `report.html`, one self-contained page, `report.md` for a model card, and their figures.

    Args:
        comparison: the methods on a labelled set.
        directory: folder to write to; created if it does not exist.
        title: heading of the page.
        method: method whose most uncertain inputs and most confident errors are listed. None: of the methods with
            several samples, the one whose uncertainty ranks the errors best (lowest AURC).

    Returns:
        The path of `report.html`.
    """
    _check(comparison, method)
    folder = Path(directory)
    uncertainties = {name: _uncertainty(outcome) for name, outcome in comparison.outcomes.items()}
    errors = {name: _predictions(outcome) != comparison.labels for name, outcome in comparison.outcomes.items()}
    chosen = method or _best_ranking(comparison, uncertainties, errors)
    order = np.argsort(-uncertainties[chosen], kind="stable")
    mistakes = [index for index in order[::-1] if errors[chosen][index]]
    uncertain = _examples(comparison, chosen, uncertainties[chosen], order[:EXAMPLES])
    columns = _columns(comparison.table)
    content = {
        "title": title,
        "comparison": comparison,
        "sample_counts": {name: _sample_count(outcome) for name, outcome in comparison.outcomes.items()},
        "columns": columns,
        "methods_in_markdown": _methods_in_markdown(comparison, columns),
        "pictures": _pictures(comparison, uncertainties, errors, folder),
        "chosen": chosen,
        "sampled": len(comparison.outcomes[chosen].samples) > 1,
        "uncertain": uncertain,
        "uncertain_in_markdown": _examples_in_markdown(uncertain[:EXAMPLES_IN_MARKDOWN]),
        "mistakes": _examples(comparison, chosen, uncertainties[chosen], mistakes[:EXAMPLES]),
        "mistake_count": len(mistakes),
    }
    for name in ("report.html", "report.md"):
        text = _environment().get_template(f"{name}.j2").render(content)
        (folder / name).write_text(_writable(text), encoding="utf-8")
    return folder / "report.html"


def _check(comparison: Comparison, method: str | None) -> None:
    if not comparison.outcomes:
        raise ValueError("comparison.outcomes is empty; it must hold {method: Outcome} for at least one method.")
    if method is not None and method not in comparison.outcomes:
        raise ValueError(f"method={method!r} was not compared; choose one of {', '.join(comparison.outcomes)}.")
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


def _uncertainty(outcome: Outcome) -> NDArray[Any]:
    """Return the predictive entropy (B,) of the mean over the samples."""
    return metrics.predictive_entropy(outcome.samples)


def _predictions(outcome: Outcome) -> NDArray[Any]:
    """Return the most probable classes (B,)."""
    return predicted_classes(outcome.samples.astype(float))


def _best_ranking(comparison: Comparison, uncertainties: Mapping[str, Any], errors: Mapping[str, Any]) -> str:
    """Return the method of lowest AURC, among those with several samples if there are any."""
    sampled = [name for name, outcome in comparison.outcomes.items() if len(outcome.samples) > 1]
    return min(sampled or uncertainties, key=lambda name: metrics.aurc(errors[name], uncertainties[name]))


def _sample_count(outcome: Outcome) -> str:
    """Return the number of samples per input in words."""
    low, high = int(outcome.num_samples.min()), int(outcome.num_samples.max())
    if low == high:
        return "1 sample" if low == 1 else f"{low} samples"
    return f"{low} to {high} samples, {outcome.num_samples.mean():.1f} on average"


def _examples(comparison: Comparison, method: str, uncertainty: NDArray[Any], chosen: Iterable[int]) -> list[Example]:
    """Return the chosen inputs with the predictions of a method."""
    outcome, names = comparison.outcomes[method], comparison.label_names
    predictions, sampled = _predictions(outcome), len(outcome.samples) > 1
    mean, std = metrics.top_probability(outcome.samples), metrics.top_std(outcome.samples)
    return [
        Example(
            text=comparison.texts[index],
            prediction=names[predictions[index]],
            label=names[comparison.labels[index]],
            probability=f"{mean[index]:.2f}" + (f" ± {std[index]:.2f}" if sampled else ""),
            uncertainty=f"{uncertainty[index]:.2f}",
            correct=bool(predictions[index] == comparison.labels[index]),
        )
        for index in chosen
    ]


def _examples_in_markdown(examples: Iterable[Example]) -> str:
    header = ("input", "prediction", "label", "probability", "uncertainty", "correct")
    body = [
        (
            *map(_markdown, (_shortened(example.text, 160), example.prediction, example.label)),
            example.probability,
            example.uncertainty,
            "yes" if example.correct else "no",
        )
        for example in examples
    ]
    return tables.markdown_table(header, body, "lllrrl")


def _columns(table: list[dict[str, float | str]]) -> list[Column]:
    """Return the measures of the table in the order of their first appearance."""
    keys = [key for key in tables.column_names(table) if key != "method"]
    return [_column(key, [row.get(key, math.nan) for row in table]) for key in keys]


def _column(key: str, values: list[float | str]) -> Column:
    """Return a column in which values that print like the best one are best too, unless there is only one value."""
    cells = [tables.format_value(value, key, DASH) for value in values]
    numbers = [float(value) for value in values if not isinstance(value, str) and math.isfinite(value)]
    arrow, choose = ("↓", min) if key in LOWER_IS_BETTER else ("↑", max)
    ranked = len(numbers) > 0 and key not in NOT_RANKED
    best = tables.format_value(choose(numbers), key) if ranked and len(numbers) > 1 else None
    name = NAMES.get(key, key.replace("_", " "))
    return Column(name, arrow if ranked else "", cells, [cell == best for cell in cells])


def _methods_in_markdown(comparison: Comparison, columns: list[Column]) -> str:
    header = ["method", *(f"{_markdown(column.name)} {column.arrow}".rstrip() for column in columns)]
    body = [
        [
            _markdown(str(row["method"])),
            *(f"**{c.cells[i]}**" if c.best[i] else _markdown(c.cells[i]) for c in columns),
        ]
        for i, row in enumerate(comparison.table)
    ]
    return tables.markdown_table(header, body)


def _pictures(
    comparison: Comparison, uncertainties: Mapping[str, Any], errors: Mapping[str, Any], folder: Path
) -> dict[str, list[Picture]]:
    """Write all figures to `folder/figures` and return them by kind."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    ood = {name: _uncertainty(outcome) for name, outcome in (comparison.ood or {}).items()}
    limits = (0.0, max(math.log(len(comparison.label_names)), 1e-3))
    curves = plots.risk_coverage({name: (errors[name], uncertainties[name]) for name in uncertainties})
    pictures = {"risk": [_picture(curves, "Risk and coverage of all methods", "risk-coverage", folder)]}
    for number, (name, outcome) in enumerate(comparison.outcomes.items(), start=1):
        stem = f"{number}-{_slug(name)}"
        reliability = plots.reliability_diagram(comparison.labels, outcome.samples, title=name)
        histograms = plots.uncertainty_histograms(
            errors[name], uncertainties[name], ood.get(name), limits=limits, title=name
        )
        for kind, figure in (("reliability", reliability), ("uncertainty", histograms)):
            picture = _picture(figure, f"{kind.capitalize()} of {name}", f"{kind}-{stem}", folder)
            pictures.setdefault(kind, []).append(picture)
    return pictures


def _picture(figure: Figure, caption: str, stem: str, folder: Path) -> Picture:
    path = folder / "figures" / f"{stem}.png"
    figure.savefig(path, dpi=144)
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return Picture(caption, f"figures/{path.name}", f"data:image/png;base64,{data}")


def _slug(name: str) -> str:
    """Return a file name that is valid on every system."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "method"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hf_bam.evaluation"),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"markdown": _markdown, "shortened": _shortened}
    return environment


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _writable(text: str) -> str:
    """Return the text with lone surrogates, which UTF-8 does not have, replaced."""
    return text.encode("utf-8", errors="replace").decode("utf-8")
