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


def settings(grid, task, training, seed, data_dir):
    """What a cell is told: the settings of all, of its task and of its training, the last ones first."""
    merged = merge({"task": task, "seed": seed}, grid["common"], grid["tasks"][task], grid["trainings"][training])
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
    grid = yaml.safe_load(Path(options.grid).read_text(encoding="utf-8"))
    done = {(r["seed"], r["task"], r["training"]): r.get("settings") for r in records(options.records)}
    planned = cells(grid)
    missing = [cell for cell in planned if cell not in done]
    print(f"{len(done)} cells are done, {len(missing)} are missing")
    for cell in planned:
        seed, task, training = cell
        if cell in done and done[cell] != without_place(settings(grid, task, training, seed, options.data_dir)):
            print(f"{task}, {training}, seed {seed}: was made with other settings than the grid has now")
    lock = threading.Lock()
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // options.jobs))}

    def run(cell):
        seed, task, training = cell
        folder = Path(options.output, task, training.replace(" ", "-"), f"seed-{seed}")
        folder.mkdir(parents=True, exist_ok=True)
        told = settings(grid, task, training, seed, options.data_dir)
        with (folder / "output.txt").open("a", encoding="utf-8") as output:
            command = [sys.executable, str(CELL), str(folder), json.dumps(told)]
            code = subprocess.run(command, stdout=output, stderr=output, env=environment, check=False).returncode
        if code:
            print(f"{folder} failed, see its output.txt", flush=True)
            return
        record = {"task": task, "training": training, "seed": seed, "settings": without_place(told)}
        record |= json.loads((folder / "record.json").read_text(encoding="utf-8"))
        with lock:
            add(options.records, record)
        print(f"{task}, {training}, seed {seed}: {record['training_seconds']:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, missing))
