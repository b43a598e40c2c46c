"""Study on citation graphs: all configurations of studies/graphs.yaml, paired by seed.

A finished run is a line of results/graphs.jsonl. A study that was interrupted continues with the first missing run.
The seeds come one after the other, so that all configurations have the same ones at any time.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch

from hf_bam.tasks import planetoid
from hf_bam.training.graphs import GraphJob, run

from ..storage import append_line, read_lines
from .grid import read

DIGITS = 5


class GraphRun(NamedTuple):
    """One configuration on one graph with one seed."""

    graph: str
    configuration: str
    seed: int

    def __str__(self):
        return f"{self.graph}, {self.configuration}, seed {self.seed}"


def planned_runs(plan, graphs=None, configurations=None, seeds=None):
    """Return the runs of a plan in their order: all of the first seed, then all of the second.

    Args:
        graphs, configurations: names; None: those of the plan.
        seeds: number of seeds; None: that of the plan.
    """
    names = {"graphs": graphs or plan["graphs"], "configurations": configurations or list(plan["configurations"])}
    for kind, own in names.items():
        for name in own:
            if name not in plan[kind]:
                raise ValueError(f"--{kind} {name!r} is not in the plan; it has {', '.join(plan[kind])}.")
    seeds = range(plan["seeds"] if seeds is None else seeds)
    return [GraphRun(graph, name, seed) for seed, graph, name in product(seeds, *names.values())]


def main(options):
    plan = read(options.grid)
    runs = planned_runs(plan, options.graphs, options.configurations, options.seeds)
    records = options.records
    finished = {GraphRun(*(record[name] for name in GraphRun._fields)) for record in read_lines(records)}
    missing = [run for run in runs if run not in finished]
    print(f"{len(runs) - len(missing)} of {len(runs)} runs are finished", flush=True)
    folder = Path(options.data_dir, "planetoid")
    if options.jobs == 1:
        done = (execute(run, plan["configurations"][run.configuration], folder) for run in missing)
        write(done, records)
        return
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        jobs = [pool.submit(execute, run, plan["configurations"][run.configuration], folder) for run in missing]
        write((job.result() for job in jobs), records)


def write(done, records):
    """Append the records of runs as they end."""
    for record in done:
        append_line(records, record)
        accuracy = record["selected"]["published"]["test"]["mean"]["accuracy"]
        run = GraphRun(*(record[name] for name in GraphRun._fields))
        print(f"{run}: accuracy {accuracy:.3f}, {record['seconds']:.0f} s", flush=True)


def execute(planned, settings, folder):
    """Train and evaluate one run on one core, and return its record."""
    torch.set_num_threads(1)
    job = GraphJob(dataset=planned.graph, seed=planned.seed, **settings)
    graph = planetoid.load(planned.graph, folder)
    _, record = run(job, graph)
    about = {name: record[name] for name in ("epochs", "seconds", "task_loss", "kl_loss", "selected")}
    return rounded({**planned._asdict(), "bam": record["settings"]["bam"], **about})


def rounded(value):
    """Return a record with `DIGITS` decimals, and null in place of NaN."""
    if isinstance(value, dict):
        return {name: rounded(own) for name, own in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, DIGITS) if abs(value) > 1e-3 else value
    return value
