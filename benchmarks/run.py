"""Run a study and write its results beside this file.

python benchmarks/run.py prior      # the contextual prior and beta, about three minutes
python benchmarks/run.py loop       # what the training loop adds to a step, about two minutes
python benchmarks/run.py predict    # draws folded into the batch, about two minutes
python benchmarks/run.py speed      # training steps and inference against plain attention, about 15 minutes
python benchmarks/run.py memory     # peak memory of a training step and of attention alone, about five minutes
python benchmarks/run.py scaling    # cost against length, draws and layers, about ten minutes
python benchmarks/run.py spread     # how far draws move predictions, by kind of noise, about 25 minutes
python benchmarks/run.py architectures --jobs 2    # every text model of transformers, tiny, about a minute
python benchmarks/run.py study --data_dir DATA --jobs 2    # real tasks, hours; goes on where it was
python benchmarks/run.py report     # its tables and plots, into docs/results.md
"""

import argparse
import importlib
import json
import platform
from pathlib import Path

import torch
import transformers

SELF_CONTAINED = ("loop", "memory", "predict", "prior", "scaling", "speed", "spread")
RESULTS = Path(__file__).parent / "results"


def processor():
    """The model of the processor, where the system tells it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=[*SELF_CONTAINED, "architectures", "study", "report"])
    group = parser.add_argument_group("of study and report")
    group.add_argument("--grid", default=Path(__file__).with_name("study.yaml"), help="which cells there are")
    group.add_argument("--data_dir", help="folder with glue, squad and multi30k/raw")
    group.add_argument("--records", default=RESULTS / "study.jsonl", help="a line for each finished cell")
    group.add_argument("--output", default="out/study", help="for models, logs and draws")
    group.add_argument("--jobs", type=int, default=1, help="cells at a time; they share the cores")
    options = parser.parse_args()
    name = options.study
    if name not in SELF_CONTAINED:
        importlib.import_module(name).main(options)
        return
    rows = []
    for row in importlib.import_module(name).study():
        print(json.dumps(row), flush=True)
        rows.append(row)
    machine = {
        "command": f"python benchmarks/run.py {name}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
