"""Command line of the benchmarks.

Without data, results in benchmarks/results:

python benchmarks/run.py speed      # training steps and inference against plain attention, 15 minutes
python benchmarks/run.py memory     # peak memory of a training step and of attention alone, 5 minutes
python benchmarks/run.py scaling    # cost by number of tokens, samples and stochastic layers, 10 minutes
python benchmarks/run.py compiled   # training steps under torch.compile, 10 minutes
python benchmarks/run.py generation # texts with sampled attention against plain ones, 5 minutes
python benchmarks/run.py startup    # import of the package, 2 minutes
python benchmarks/run.py gpu        # FlexAttention on a GPU: agreement with the matrix, and time, 10 minutes
python benchmarks/run.py predict    # batched sampling against separate passes, 2 minutes
python benchmarks/run.py loop       # overhead of the training loop, 2 minutes
python benchmarks/run.py prior      # the contextual prior by beta, 3 minutes
python benchmarks/run.py spread     # spread of the samples by kind and width of the noise, 25 minutes
python benchmarks/run.py architectures --jobs 2    # every text model of transformers, tiny, 1 minute

With data:

python benchmarks/run.py study --data_dir DATA --jobs 2    # all runs of studies/study.yaml, hours; can be resumed
python benchmarks/run.py uncertainty --data_dir DATA --jobs 2    # those of studies/uncertainty.yaml, hours; likewise
python benchmarks/run.py samples --data_dir DATA    # number of samples that a prediction needs, 1 hour
python benchmarks/run.py reference --data_dir DATA/glue    # transformers' Trainer on CoLA and RTE, 30 minutes
python benchmarks/run.py graphs --data_dir DATA --jobs 2   # all runs of studies/graphs.yaml, hours; can be resumed
python benchmarks/run.py alignments --data_dir DATA --jobs 2    # those of studies/alignments.yaml, 4 hours; likewise

python benchmarks/run.py questions --data_dir DATA --jobs 2    # latent attention for questions; can be resumed
python benchmarks/run.py ptb --data_dir DATA --jobs 2    # latent memory for sentences; can be resumed

python benchmarks/run.py vqa --jobs 2    # questions about images; can be resumed

python benchmarks/run.py report     # tables and figures of the documentation, from the results
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
MEASURED = {
    "speed": "cost.speed",
    "memory": "cost.memory",
    "scaling": "cost.scaling",
    "compiled": "cost.compiled",
    "generation": "cost.generation",
    "startup": "cost.startup",
    "gpu": "cost.gpu",
    "predict": "cost.predict",
    "loop": "cost.loop",
    "prior": "studies.prior",
    "spread": "studies.spread",
}
"""Modules whose `rows()` become a file in results/."""
PROGRAMS = {
    "architectures": "architectures.sweep",
    "study": "studies.runner",
    "uncertainty": "studies.runner",
    "samples": "studies.samples",
    "reference": "studies.reference",
    "graphs": "studies.graphs",
    "alignments": "studies.runner",
    "questions": "studies.latent",
    "ptb": "studies.latent",
    "vqa": "studies.vqa",
    "report": "report",
}
"""Modules with a `main` that takes the options."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=[*MEASURED, *PROGRAMS])
    parser.add_argument(
        "--jobs", type=int, default=1, help="Processes at a time, for architectures, study, graphs and alignments."
    )
    group = parser.add_argument_group("study, reference, graphs and alignments")
    group.add_argument(
        "--data_dir",
        help="Folder with glue, squad, clinc150, multi30k/raw, planetoid, nqg and ptb; for reference that of GLUE.",
    )
    group.add_argument("--grid", type=Path, help="File with the plan; by default studies/BENCHMARK.yaml.")
    group.add_argument(
        "--records", type=Path, help="File with a line for each run; by default results/BENCHMARK.jsonl."
    )
    group.add_argument("--output", type=Path, help="Folder for models and logs; by default out/BENCHMARK.")
    group = parser.add_argument_group("graphs")
    group.add_argument("--graphs", nargs="+", help="Only these graphs.")
    group.add_argument("--configurations", nargs="+", help="Only these configurations.")
    group.add_argument("--seeds", type=int, help="Number of seeds; that of the plan by default.")
    return parser.parse_args()


def with_files(options):
    """Return the options with the usual files of the benchmark where none are given."""
    name = options.benchmark
    plan = "uncertainty" if name == "samples" else name
    options.grid = options.grid or HERE / "studies" / f"{plan}.yaml"
    options.records = options.records or HERE / "results" / f"{name}.jsonl"
    options.output = options.output or Path("out", name)
    return options


def main():
    options = with_files(parse())
    name = options.benchmark
    module = importlib.import_module(f"benchmarks.{(MEASURED | PROGRAMS)[name]}")
    if name in PROGRAMS:
        module.main(options)
        return
    rows = []
    for row in module.rows():
        print(json.dumps(row), flush=True)
        rows.append(row)
    importlib.import_module("benchmarks.storage").write(name, rows)
    if wrong := sum(row.get("agrees") is False for row in rows):
        raise SystemExit(f'{wrong} of the rows do not agree: look for "agrees": false.')


if __name__ == "__main__":
    sys.path[0] = str(HERE.parent)  # the root of the clone, for `import benchmarks`
    main()
