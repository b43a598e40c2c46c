"""Runs on a graph: training, evaluation and files."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from ...evaluation import tables
from ...integrations.serialization import save
from ...patching import is_patched, patch
from ..files import write_json
from ..logger import Log
from ..randomness import seed_all
from .evaluation import MEAN, measures, predictions
from .loop import train
from .settings import SELECTIONS, GraphJob

FILE = "results.json"
SHOWN = ("accuracy", "nll", "ece", "error_auroc", "pavpu", "epistemic")
"""Measures of the table that a run prints; the file has all of them."""
Record = dict[str, Any]


def run(job: GraphJob, graph: Any) -> tuple[nn.Module, Record]:
    """Train a model on a graph and measure it; return the model and the record of the run.

    Args:
        graph: a [`CitationGraph`][hf_bam.tasks.planetoid.CitationGraph].
    """
    model = build(job, graph)
    course = train(model, graph, job)
    record: Record = {"dataset": job.dataset, "variant": job.variant, "seed": job.seed}
    record |= {"settings": job.to_dict(), "selected": {}}
    record |= {name: getattr(course, name) for name in ("epochs", "seconds", "task_loss", "kl_loss")}
    for rule in (*(rule for rule in SELECTIONS if rule != job.selection), job.selection):
        model.load_state_dict(course.weights[rule])  # those of the job last
        samples = predictions(model, graph, job.num_samples)
        sets = {"test": graph.test, "validation": graph.validation}
        found = {name: measures(samples, graph.labels, nodes) for name, nodes in sets.items()}
        record["selected"][rule] = {"epoch": course.best_epochs[rule], **found}
    return model, record


def build(job: GraphJob, graph: Any) -> nn.Module:
    """Return a new model. Runs with the same seed start from the same weights, whatever their variant."""
    from ...tasks import planetoid

    assert job.output_heads is not None  # the job takes it from the graph
    seed_all(job.seed)
    model: nn.Module = planetoid.Gat(
        graph.x.shape[1],
        graph.num_classes,
        layer=job.layer,
        channels=job.channels,
        heads=job.heads,
        output_heads=job.output_heads,
        rate=job.dropout,
    )
    config = job.bam_config()
    if config is not None:
        patch(model, config)
        seed_all(job.seed, process=1)
    return model


def run_all(
    jobs: Sequence[GraphJob],
    data_dir: Path,
    output: Path | None = None,
    *,
    download: bool = False,
    overwrite: bool = False,
    log: Log = print,
) -> list[Record]:
    """Run several jobs on one graph, print their means over seeds and write them to a folder.

    Args:
        output: folder for the weights of each run and for results.json; None: nothing is written.
        download: let PyG download the graph to `data_dir`.
        overwrite: replace the results in the folder.
    """
    if output is not None and (output / FILE).exists() and not overwrite:
        raise ValueError(
            f"{output} has results of other runs; choose another folder, or replace them with --overwrite_output_dir."
        )
    from ...tasks import planetoid

    (dataset,) = {job.dataset for job in jobs}
    graph = planetoid.load(dataset, data_dir, download)
    log(f"{dataset}: {len(graph.labels)} nodes, {graph.edge_index.shape[1]} edges, {graph.num_classes} classes")
    records = []
    for job in jobs:
        model, record = run(job, graph)
        records.append(record)
        log(describe(record, job.selection))
        if output is not None:
            save_model(model, output / job.variant / f"seed-{job.seed}")
    log(f"\n{tables.as_text(summary(records, jobs[0].selection))}")
    if output is not None:
        log(f"\nWritten: {write_json(output / FILE, records)}")
    return records


def describe(record: Record, rule: str) -> str:
    """Return one line about a run."""
    kept = record["selected"][rule]
    return (
        f"{record['variant']}, seed {record['seed']}: test accuracy {kept['test'][MEAN]['accuracy']:.3f} with the "
        f"weights of epoch {kept['epoch']} of {record['epochs']}, {record['seconds']:.0f} s"
    )


def save_model(model: nn.Module, folder: Path) -> None:
    """Write the plain weights and, for Bayesian attention, bam.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor for name, tensor in model.state_dict().items() if "bam" not in name}
    save_file(weights, folder / "model.safetensors")
    if is_patched(model):
        save(model, folder)


def summary(records: Iterable[Record], rule: str, part: str = "test") -> list[dict[str, Any]]:
    """Return means over seeds: a row for each variant and method; accuracy also with its standard deviation."""
    groups: dict[tuple[str, str], list[dict[str, float]]] = {}
    for record in records:
        for method, own in record["selected"][rule][part].items():
            groups.setdefault((record["variant"], method), []).append(own)
    rows = []
    for (variant, method), own in groups.items():
        values = {name: [one[name] for one in own if not math.isnan(one[name])] for name in SHOWN}
        means = {name: statistics.fmean(found) if found else math.nan for name, found in values.items()}
        deviation = statistics.stdev(values["accuracy"]) if len(own) > 1 else math.nan
        about: dict[str, Any] = {"variant": variant, "method": method, "runs": len(own)}
        rows.append({**about, "accuracy": means.pop("accuracy"), "std": deviation, **means})
    return rows
