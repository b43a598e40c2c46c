"""Study of questions about images, the paper's second table.

python benchmarks/run.py vqa --jobs 2
python -m benchmarks.studies.vqa FOLDER SETTINGS    # one run; SETTINGS: JSON, from grid.settings

`vqa.yaml` has the plan. A finished run is a line of results/vqa.jsonl.
"""

import copy
import json
import sys
from argparse import Namespace
from pathlib import Path

import torch

import hf_bam
from hf_bam.evaluation import metrics
from hf_bam.evaluation.outcomes import measure
from hf_bam.prediction import Bam, Dropout, Plain, Predictor
from hf_bam.training.evaluation import subsample
from hf_bam.training.files import write_json
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve

from ..storage import RESULTS
from . import runner
from .worker import training_cost

STRENGTHS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Standard deviations of the noise; pixels are between -1 and 1."""
THRESHOLDS = (0.01, 0.05, 0.1)
ROWS, SAMPLES, DROPOUT = 1500, 20, 0.1
"""Test questions, samples of each, and the rate of dropout in samples."""


def main(options):
    """Execute the runs of the study."""
    paths = {"grid": Path(__file__).with_name("vqa.yaml"), "records": RESULTS / "vqa.jsonl"}
    runner.main(Namespace(**{**vars(options), **paths, "worker": "benchmarks.studies.vqa"}))


class NoisyImages:
    """Image processor that adds Gaussian noise to the pixels, the same for all samples of an image.

    The embedding of patches is linear, so this is Gaussian noise of the image features.
    """

    model_input_names = ("pixel_values",)

    def __init__(self, processor, strength):
        self.processor, self.strength = processor, strength
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, images, **options):
        found = self.processor(images, **options)
        noise = torch.randn(found["pixel_values"].shape, generator=self.generator)
        return {"pixel_values": found["pixel_values"] + self.strength * noise}


def work(folder, values):
    """Train a model and write the record of its evaluation."""
    run = Run(resolve(values), folder, (), print)
    result, data = run.go(resume=True, report=False, hub_model_id=None), run.load()
    model, processor = run.task.build(str(folder / "model"), data)
    if values.get("attention") != "plain":
        hf_bam.load(model, folder / "model")
    record = {"scores": result.scores, "steps": result.about["steps"], **training_cost(folder, result)}
    write_json(folder / "record.json", record | {"methods": evaluate(model, processor, run.task, data)})


def evaluate(model, processor, task, data):
    """Return the measures of one pass and of samples at every strength of the noise."""
    rows = subsample(data.evaluation["test"], ROWS)
    inputs, labels, found = task.inputs(rows), task.labels(rows), []
    bayesian = hf_bam.is_patched(model)
    sampler = Bam(model, dropout=DROPOUT) if bayesian else Dropout(model, rate=DROPOUT)
    methods = {"one pass": (Plain(model), 1), "samples": (sampler, SAMPLES)}
    for strength in STRENGTHS:
        for name, (own, number) in methods.items():
            noisy = copy.copy(processor)
            noisy.image_processor = NoisyImages(processor.image_processor, strength)
            samples = Predictor(own, noisy, num_samples=number, batch_size=100, progress=False)(inputs).samples
            measured = measure(labels, samples)
            row = {"method": name, "noise": strength, **{key: measured[key] for key in ("accuracy", "nll", "ece")}}
            if number > 1:
                values = metrics.pavpu(labels, samples, THRESHOLDS)
                row |= {f"pavpu {threshold}": float(own) for threshold, own in zip(THRESHOLDS, values, strict=True)}
            found.append(row)
    return found


if __name__ == "__main__":
    work(Path(sys.argv[1]), json.loads(sys.argv[2]))
