"""Result files: one JSON file for each benchmark, one JSON line for each run of a study."""

import json
import platform
from pathlib import Path

import torch
import transformers

RESULTS = Path(__file__).parent / "results"


def environment(name):
    """Return the command of a benchmark and the versions that its results depend on."""
    return {
        "command": f"python benchmarks/run.py {name}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def hardware():
    """Return a description of the machine."""
    return {"machine": platform.machine(), "processor": processor(), "threads": torch.get_num_threads()}


def processor():
    """Return number and model of the processors, as far as the system reports them."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def read(name):
    """Return the content of a result file: versions, machine and `rows`."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def write(name, rows):
    RESULTS.mkdir(exist_ok=True)
    content = {**environment(name), **hardware(), "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_lines(path):
    """Return the records of a file with one JSON object a line; none if there is no such file."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def append_line(path, record):
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
