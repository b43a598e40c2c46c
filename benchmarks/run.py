"""Run a study and write its results beside this file.

python benchmarks/run.py prior      # the contextual prior and beta, about three minutes
python benchmarks/run.py predict    # draws folded into the batch, about two minutes
"""

import argparse
import importlib
import json
import platform
from pathlib import Path

import torch
import transformers

RESULTS = Path(__file__).parent / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["predict", "prior"])
    name = parser.parse_args().study
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
        "threads": torch.get_num_threads(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
