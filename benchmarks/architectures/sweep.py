"""Sweep over architectures: every text model of transformers, tiny and patched, against the plain one.

Each pair of model type and task is checked in a worker process, so that a crash or a hang affects one pair only.
Finished pairs are lines of out/architectures.jsonl until all are done. A sweep that was interrupted can be resumed.
"""

import json
import multiprocessing
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import transformers

from ..pages import DOCS, fill
from ..storage import RESULTS, append_line, environment, read_lines
from .checks import check
from .report import pages
from .tiny import NotBuilt, build, pairs

FILE = RESULTS / "architectures.json"
PROGRESS = Path("out/architectures.jsonl")
SECONDS = 120
"""Time limit of one pair."""


def examine(model_type, task, class_name):
    """Return the record of one pair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            about = check(build(model_type, task, class_name), task)
        except NotBuilt as error:
            about = {"status": "not built", "reason": str(error)}
    return {"type": model_type, "task": task, "class": class_name, **about}


def serve(connection):
    """Answer pairs with their records until the connection is closed."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    while True:
        try:
            pair = connection.recv()
        except EOFError:
            return
        connection.send(examine(*pair))


class Worker:
    """A process that examines one pair after another; it is replaced when it ends or hangs."""

    def __init__(self, target=serve, seconds=SECONDS):
        self.target, self.seconds, self.process = target, seconds, None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=self.target, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self):
        if self.process is not None:
            self.connection.close()
            self.process.kill()
            self.process.join()
            self.process = None

    def run(self, pair):
        if self.process is None:
            self.start()
        try:
            self.connection.send(pair)
            if self.connection.poll(self.seconds):
                return self.connection.recv()
            reason = f"took longer than {self.seconds} seconds"
        except (EOFError, OSError):
            self.process.join()
            reason = f"the process ended with code {self.process.exitcode}"
        self.stop()
        model_type, task, class_name = pair
        return {
            "type": model_type,
            "task": task,
            "class": class_name,
            "status": "failed",
            "failures": {"process": reason},
        }


def sweep(wanted, jobs=1, **settings):
    """Yield the records of the pairs, in their order."""
    local, workers = threading.local(), []

    def run(pair):
        if not hasattr(local, "worker"):
            local.worker = Worker(**settings)
            workers.append(local.worker)
        return local.worker.run(pair)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(run, wanted)
    finally:
        for worker in workers:
            worker.stop()


def write(records, path):
    """Write the result file, with one line for each pair."""
    lines = ",\n".join("  " + json.dumps(record) for record in records)
    head = json.dumps(environment("architectures"), indent=1).removesuffix("\n}")
    path.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def main(options):
    PROGRESS.parent.mkdir(exist_ok=True)
    records = read_lines(PROGRESS)
    finished = {(record["type"], record["task"]) for record in records}
    missing = [pair for pair in sorted(pairs()) if pair[:2] not in finished]
    for record in sweep(missing, options.jobs):
        print(record["status"], record["type"], record["task"], *record.get("failures", {}).items(), flush=True)
        append_line(PROGRESS, record)
        records.append(record)
    write(sorted(records, key=lambda record: (record["type"], record["task"])), FILE)
    PROGRESS.unlink()
    for page, parts in pages().items():
        fill(DOCS / page, parts)
