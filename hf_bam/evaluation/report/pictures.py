"""Figures of a report, as files beside the page and as data inside of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from .. import metrics, plots
from ..comparison import Comparison
from ..findings import Findings, Judged
from ..outcomes import Array
from .escaping import data_address


@dataclass(frozen=True)
class Picture:
    """Figure as a file beside the page and as a data address inside it."""

    caption: str
    link: str
    data: str


def make_pictures(
    found: Comparison | Findings, judged: Mapping[str, Judged], folder: Path
) -> dict[str, list[Picture]]:
    """Write all figures to `folder/figures` and return them by kind."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    pictures: dict[str, list[Picture]] = {}
    for kind, caption, stem, figure in _figures(found, judged):
        pictures.setdefault(kind, []).append(_picture(figure, caption, stem, folder))
    return pictures


def _figures(found: Comparison | Findings, judged: Mapping[str, Judged]) -> Iterator[tuple[str, str, str, Figure]]:
    """Yield kind, caption, name of the file and figure."""
    loss = found.loss if isinstance(found, Findings) else "error rate"
    curves = plots.risk_coverage({name: (own.losses, own.uncertainty) for name, own in judged.items()}, name=loss)
    yield "risk", "Risk and coverage of all methods", "risk-coverage", curves
    for number, (name, own) in enumerate(judged.items(), start=1):
        stem = f"{number}-{slug(name)}"
        if isinstance(found, Comparison):
            yield from _of_classes(found, name, own, stem)
        else:
            yield from _of_findings(found, name, own, stem)
        if own.aleatoric is not None and own.epistemic is not None and own.num_samples.max() > 1:
            ood = _parts_of_ood(found, name)
            figure = plots.uncertainty_parts(own.aleatoric, own.epistemic, own.losses, ood, title=name)
            yield "parts", f"Parts of the uncertainty of {name}", f"parts-{stem}", figure


def _of_classes(found: Comparison, name: str, own: Judged, stem: str) -> Iterator[tuple[str, str, str, Figure]]:
    outcome, ood = found.outcomes[name], (found.ood or {}).get(name)
    figure = plots.reliability_diagram(found.labels, outcome.samples, title=name)
    yield "reliability", f"Reliability of {name}", f"reliability-{stem}", figure
    limits = (0.0, max(math.log(len(found.label_names)), 1e-3))
    others = None if ood is None else ood.entropy
    figure = plots.uncertainty_histograms(own.losses > 0, own.uncertainty, others, limits=limits, title=name)
    yield "uncertainty", f"Uncertainty of {name}", f"uncertainty-{stem}", figure


def _of_findings(found: Findings, name: str, own: Judged, stem: str) -> Iterator[tuple[str, str, str, Figure]]:
    if found.targets is not None and own.intervals is not None:
        values, ends = own.intervals[:, 0], own.intervals[:, 1:]
        figure = plots.predicted_numbers(found.targets, values, ends, title=name)
        yield "numbers", f"Predictions of {name}", f"numbers-{stem}", figure
    if own.uncertainty.std() > 0:
        figure = plots.loss_against_uncertainty(own.losses, own.uncertainty, name=found.loss, title=name)
        yield "loss", f"Loss and uncertainty of {name}", f"loss-{stem}", figure


def _parts_of_ood(found: Comparison | Findings, name: str) -> tuple[Array, Array] | None:
    outcome = (found.ood or {}).get(name) if isinstance(found, Comparison) else None
    if outcome is None:
        return None
    return metrics.expected_entropy(outcome.samples), metrics.mutual_information(outcome.samples)


def _picture(figure: Figure, caption: str, stem: str, folder: Path) -> Picture:
    path = folder / "figures" / f"{stem}.png"
    figure.savefig(path, dpi=144)
    return Picture(caption, f"figures/{path.name}", data_address(path.read_bytes(), "image/png"))


def slug(name: str) -> str:
    """Return a file name that is valid on every system."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "method"
