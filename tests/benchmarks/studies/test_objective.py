"""Objective by width of the noise."""

import pytest
import torch

import hf_bam
from benchmarks.studies.grid import PlannedRun, settings
from benchmarks.studies.methods import Trained
from benchmarks.studies.objective import objective
from hf_bam.training.settings import resolve


def test_the_loss_with_little_noise_is_that_of_the_plain_model(grid, data_folder):
    """The first k is large, so that samples are close to mean attention."""
    job = resolve(settings(grid, PlannedRun("custom", "BAM k=2", 0), data_folder.parent))
    task = job.make_task()
    data = task.load(job.data_dir)
    model, tokenizer = task.build(job.model_name_or_path, data)
    inputs = tokenizer(list(data.train["sentence1"]), padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model.eval()(**inputs, labels=torch.tensor(data.train["label"])).loss
    hf_bam.patch(model, k=2.0)
    first, *others = objective(Trained(job, task, model, tokenizer), data.train)
    assert first["k"] == 20
    assert first["task_loss"] == pytest.approx(float(expected), abs=0.01)
    assert len({row["kl"] for row in others}) == len(others)
