"""Execution of the study: each run is a process, and a finished run is a line of results/study.jsonl.

A study that was interrupted can be resumed. The plan may change in the meantime, and while the study is running.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from ..storage import append_line, read_lines
from .grid import PlannedRun, planned_runs, read, settings, without_paths

ROOT = Path(__file__).parents[2]
WORKER = "benchmarks.studies.worker"
"""Module that executes a run, unless a study has its own."""


def main(options):
    finished = {key(record): record.get("settings") for record in read_lines(options.records)}
    grid = read(options.grid)
    runs = planned_runs(grid)
    print(f"{len(finished)} runs are finished, {len([run for run in runs if run not in finished])} are missing")
    for run in runs:
        if run in finished and finished[run] != without_paths(settings(grid, run, options.data_dir)):
            print(f"{run}: its settings differ from those of the grid")
    changed, started, running = threading.Condition(), {*finished}, set()

    def begin():
        """Return the first run that is not started and needs no model of a running one, with its settings.

        The plan is read again each time. Wait if there are only runs that need models; return None if there are none.
        """
        while True:
            grid = read(options.grid)
            left = {run: settings(grid, run, options.data_dir) for run in planned_runs(grid) if run not in started}
            for run, values in left.items():
                if not needs(run, values, running):
                    started.add(run)
                    running.add(run)
                    return run, values
            if not left:
                return None
            changed.wait()

    def work():
        """Execute runs until none is left."""
        while True:
            with changed:
                found = begin()
            if found is None:
                return
            run, values = found
            try:
                record = execute(run, values, options)
                if record is not None:
                    with changed:
                        append_line(options.records, record)
            finally:
                with changed:
                    running.discard(run)
                    changed.notify_all()

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for worker in [pool.submit(work) for _ in range(options.jobs)]:
            worker.result()


def needs(run, values, running):
    """Return whether the run starts from models that are in training."""
    models = values.get("start"), values.get("ensemble")
    return any(other.task == run.task and other.configuration in models for other in running)


def key(record):
    return PlannedRun(record["task"], record["configuration"], record["seed"])


def execute(run, values, options):
    """Execute a run in a process of its own and return its record; None if the process fails."""
    name = run.configuration.replace(" ", "-").replace(",", "")
    folder = Path(options.output, run.task, name, f"seed-{run.seed}")
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // options.jobs)),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    with (folder / "output.txt").open("a", encoding="utf-8") as output:
        worker = getattr(options, "worker", WORKER)
        command = [sys.executable, "-m", worker, str(folder), json.dumps(values)]
        code = subprocess.run(command, stdout=output, stderr=output, env=environment, check=False).returncode
    if code:
        print(f"{folder} failed, see its output.txt", flush=True)
        return None
    record = {**run._asdict(), "settings": without_paths(values)}
    record |= json.loads((folder / "record.json").read_text(encoding="utf-8"))
    print(f"{run}: {record.get('training_seconds', 0):.0f} s of training", flush=True)
    return record
