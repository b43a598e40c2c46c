"""A page that shows how far each method's doubt can be trusted."""

from __future__ import annotations

import base64
import html
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

from . import metrics, plots
from .comparison import Comparison, Outcome
from .metrics._arrays import predicted

LOWER = frozenset({"nll", "ece", "mce", "brier", "aurc", "e_aurc", "fpr95", "seconds"})
"""Measures of which less is better; of all others more is."""
NEITHER = frozenset({"epistemic", "draws"})
"""Facts about a method that are not better or worse."""
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
}
DASH = "—"


@dataclass(frozen=True)
class Picture:
    """A figure as a file beside the page and as a data address inside it."""

    caption: str
    link: str
    data: str


@dataclass(frozen=True)
class Judged:
    """What a method said about one input."""

    text: str
    prediction: str
    label: str
    probability: str
    doubt: str
    right: bool


def report(
    comparison: Comparison,
    directory: str | Path,
    title: str = "Predictions and their doubt",
    *,
    method: str | None = None,
) -> Path:
    """Write `report.html`, one self-contained page, `report.md` for a model card, and their figures.

    Args:
        comparison: what the methods said about a labelled set.
        directory: where to write; made if it is not there.
        title: heading of the page.
        method: whose doubtful inputs and confident mistakes are listed. None: of the methods that draw, the one whose
            doubt orders the errors best (lowest AURC).

    Returns:
        The path of `report.html`.
    """
    _check(comparison, method)
    folder = Path(directory)
    doubts = {name: _doubt(outcome) for name, outcome in comparison.outcomes.items()}
    errors = {name: _answers(outcome) != comparison.labels for name, outcome in comparison.outcomes.items()}
    chosen = method or _most_telling(comparison, doubts, errors)
    order = np.argsort(-doubts[chosen], kind="stable")
    mistakes = [index for index in order[::-1] if errors[chosen][index]]
    content = {
        "title": title,
        "comparison": comparison,
        "draws": {name: _draws(outcome) for name, outcome in comparison.outcomes.items()},
        "columns": _columns(comparison.table),
        "pictures": _pictures(comparison, doubts, errors, folder),
        "chosen": chosen,
        "drawn": len(comparison.outcomes[chosen].samples) > 1,
        "doubtful": _judge(comparison, chosen, doubts[chosen], order[:10]),
        "mistakes": _judge(comparison, chosen, doubts[chosen], mistakes[:10]),
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
                f"(draws, {wanted[0]}, {wanted[1]}), as there are {wanted[0]} labels and {wanted[1]} label_names."
            )
    if len(comparison.texts) != wanted[0]:
        raise ValueError(
            f"comparison.texts has {len(comparison.texts)} entries; expected {wanted[0]}, as many as labels."
        )


def _doubt(outcome: Outcome) -> NDArray[Any]:
    """(B,) predictive entropy of the mean over the draws."""
    return metrics.predictive_entropy(outcome.samples)


def _answers(outcome: Outcome) -> NDArray[Any]:
    """(B,) the most probable class."""
    return predicted(outcome.samples.astype(float))


def _most_telling(comparison: Comparison, doubts: Mapping[str, Any], errors: Mapping[str, Any]) -> str:
    drawing = [name for name, outcome in comparison.outcomes.items() if len(outcome.samples) > 1]
    return min(drawing or doubts, key=lambda name: metrics.aurc(errors[name], doubts[name]))


def _draws(outcome: Outcome) -> str:
    """How many draws there were for an input, in words."""
    low, high = int(outcome.num_samples.min()), int(outcome.num_samples.max())
    if low == high:
        return "1 draw" if low == 1 else f"{low} draws"
    return f"{low} to {high} draws, {outcome.num_samples.mean():.1f} on average"


def _judge(comparison: Comparison, method: str, doubt: NDArray[Any], chosen: Iterable[int]) -> list[Judged]:
    """The chosen inputs, with what the method said about them."""
    outcome, names = comparison.outcomes[method], comparison.label_names
    answers, drawn = _answers(outcome), len(outcome.samples) > 1
    mean, spread = metrics.top_probability(outcome.samples), metrics.top_std(outcome.samples)
    return [
        Judged(
            text=comparison.texts[index],
            prediction=names[answers[index]],
            label=names[comparison.labels[index]],
            probability=f"{mean[index]:.2f}" + (f" ± {spread[index]:.2f}" if drawn else ""),
            doubt=f"{doubt[index]:.2f}",
            right=bool(answers[index] == comparison.labels[index]),
        )
        for index in chosen
    ]


@dataclass(frozen=True)
class Column:
    """One measure of all methods: values as text, which of them are the best, and where better lies."""

    name: str
    arrow: str
    cells: list[str]
    best: list[bool]


def _columns(table: list[dict[str, float | str]]) -> list[Column]:
    """The measures of the table in the order in which they first appear."""
    keys = dict.fromkeys(key for row in table for key in row if key != "method")
    return [_column(key, [row.get(key, math.nan) for row in table]) for key in keys]


def _column(key: str, values: list[float | str]) -> Column:
    """Values that read the same as the best are as good; a value alone is not called best."""
    digits = 1 if key in ("seconds", "draws") else 3
    cells = [_cell(value, digits) for value in values]
    numbers = [float(value) for value in values if not isinstance(value, str) and math.isfinite(value)]
    arrow, choose = ("↓", min) if key in LOWER else ("↑", max)
    ranked = len(numbers) > 0 and key not in NEITHER
    best = _cell(choose(numbers), digits) if ranked and len(numbers) > 1 else None
    name = NAMES.get(key, key.replace("_", " "))
    return Column(name, arrow if ranked else "", cells, [cell == best for cell in cells])


def _cell(value: float | str, digits: int) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.{digits}f}" if math.isfinite(value) else DASH


def _pictures(
    comparison: Comparison, doubts: Mapping[str, Any], errors: Mapping[str, Any], folder: Path
) -> dict[str, list[Picture]]:
    """All figures, written to `folder/figures`."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    elsewhere = {name: _doubt(outcome) for name, outcome in (comparison.ood or {}).items()}
    limits = (0.0, max(math.log(len(comparison.label_names)), 1e-3))
    curves = plots.risk_coverage({name: (errors[name], doubts[name]) for name in doubts})
    pictures = {"risk": [_picture(curves, "Risk and coverage of all methods", "risk-coverage", folder)]}
    for number, (name, outcome) in enumerate(comparison.outcomes.items(), start=1):
        stem = f"{number}-{_slug(name)}"
        bars = plots.reliability_diagram(comparison.labels, outcome.samples, title=name)
        doubt = plots.uncertainty_histograms(
            errors[name], doubts[name], elsewhere.get(name), limits=limits, title=name
        )
        for kind, figure, caption in (("reliability", bars, "Reliability"), ("doubt", doubt, "Doubt")):
            picture = _picture(figure, f"{caption} of {name}", f"{kind}-{stem}", folder)
            pictures.setdefault(kind, []).append(picture)
    return pictures


def _picture(figure: Figure, caption: str, stem: str, folder: Path) -> Picture:
    path = folder / "figures" / f"{stem}.png"
    figure.savefig(path, dpi=144)
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return Picture(caption, f"figures/{path.name}", f"data:image/png;base64,{data}")


def _slug(name: str) -> str:
    """A file name that any system takes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "method"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hf_bam"),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"markdown": _markdown, "shortened": _shortened}
    return environment


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _markdown(text: str) -> str:
    """One line of text as Markdown shows it: no markup, no HTML, no characters that turn the line around."""
    line = re.sub(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", " ".join(text.split()))
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", html.escape(line, quote=False))


def _writable(text: str) -> str:
    """Text without the lone surrogates that UTF-8 cannot hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")
