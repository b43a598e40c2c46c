"""The study on real tasks: trainings x tasks x seeds of study.yaml, each a process of its own.

Finished cells are lines of results/study.jsonl; a run that was killed goes on with the first one that is missing.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import yaml

from hf_bam.training.compatibility import present_names
from hf_bam.training.settings import merge

CELL = Path(__file__).with_name("cell.py")
PRESETS = {"sentiment": "sst-2", "squad": "squad-1.1"}
"""Whose settings of the paper a task takes that has none under its own name."""


def cells(grid):
    """The cells of the plan in its order, each once: task, training, seed."""
    found = []
    for part in grid["plan"]:
        found += product(part["tasks"], part["trainings"], part["seeds"])
    return list(dict.fromkeys((seed, task, training) for task, training, seed in found))


def settings(grid, seed, task, training, data_dir):
    """What a cell is told: the settings of all, of its task and of its training, the last ones first."""
    merged = merge({"task_name": task, "seed": seed}, grid["common"], grid["tasks"][task], grid["trainings"][training])
    if merged.get("bam", {}).get("preset") == "own":
        merged["bam"] = {**merged["bam"], "preset": PRESETS.get(task, task)}
    place = merged.pop("data", None)
    return merged | ({} if place is None else {"data_dir": str(Path(data_dir, place))})


def without_place(told):
    return {name: value for name, value in told.items() if name != "data_dir"}


def records(path):
    path = Path(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def add(path, record):
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def main(options):
    done = {
        (r["seed"], r["task"], r["training"]): present_names(r.get("settings") or {}) for r in records(options.records)
    }
    grid = read_grid(options)
    planned = cells(grid)
    print(f"{len(done)} cells are done, {len([cell for cell in planned if cell not in done])} are missing")
    for cell in planned:
        if cell in done and done[cell] != without_place(settings(grid, *cell, options.data_dir)):
            seed, task, training = cell
            print(f"{task}, {training}, seed {seed}: was made with other settings than the grid has now")
    lock, begun = threading.Lock(), {*done}

    def work():
        """Takes the first cell that nobody has begun until there is none; the grid may change while this runs."""
        while True:
            with lock:
                grid = read_grid(options)
                cell = next((cell for cell in cells(grid) if cell not in begun), None)
                begun.add(cell)
            if cell is None:
                return
            record = run(cell, settings(grid, *cell, options.data_dir), options)
            if record is not None:
                with lock:
                    add(options.records, record)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for worker in [pool.submit(work) for _ in range(options.jobs)]:
            worker.result()


def read_grid(options):
    return yaml.safe_load(Path(options.grid).read_text(encoding="utf-8"))


def run(cell, spec, options):
    """The record of a cell, which runs as a process of its own; None if that fails."""
    seed, task, training = cell
    folder = Path(options.output, task, training.replace(" ", "-"), f"seed-{seed}")
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // options.jobs))}
    with (folder / "output.txt").open("a", encoding="utf-8") as output:
        command = [sys.executable, str(CELL), str(folder), json.dumps(spec)]
        code = subprocess.run(command, stdout=output, stderr=output, env=environment, check=False).returncode
    if code:
        print(f"{folder} failed, see its output.txt", flush=True)
        return None
    record = {"task": task, "training": training, "seed": seed, "settings": without_place(spec)}
    record |= json.loads((folder / "record.json").read_text(encoding="utf-8"))
    print(f"{task}, {training}, seed {seed}: {record['training_seconds']:.0f} s", flush=True)
    return record
