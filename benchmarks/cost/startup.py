"""Time of `import hf_bam` after other imports, and of `hf-bam --help`, in new processes.

Seconds are those of the processor, so that other programs of the machine disturb less.
"""

import resource
import subprocess
import sys

from .measure import quartiles

REPETITIONS = 9
BEFORE = {
    "transformers with Trainer": "import torch, transformers; from transformers import Trainer",
    "a model class": "import torch; from transformers import BertForSequenceClassification",
    "nothing but torch and transformers": "import torch, transformers",
}
"""Imports before that of hf_bam. transformers imports nothing of its own before a name of it is used."""
TARGETS = {"transformers with Trainer": 0.3, "hf-bam --help": 1.0}
IMPORT = "import time; {}; start = time.process_time(); import hf_bam; print(time.process_time() - start)"


def seconds_of_import(before):
    command = [sys.executable, "-c", IMPORT.format(before)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def seconds_of_help():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "hf_bam", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows():
    runs = {name: lambda code=code: seconds_of_import(code) for name, code in BEFORE.items()}
    runs["hf-bam --help"] = seconds_of_help
    times = {name: [] for name in runs}
    for _ in range(REPETITIONS):
        for name, run in runs.items():
            times[name].append(run())
    for name, seconds in quartiles(times).items():
        yield {"after": name, "seconds": seconds, "target": TARGETS.get(name)}
