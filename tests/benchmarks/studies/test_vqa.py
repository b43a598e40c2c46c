"""Study of questions about images: plan, noise, one run, and tables."""

import json

import pytest
import torch
from transformers import ViTImageProcessorPil

from benchmarks.studies import vqa, vqa_tables
from benchmarks.studies.grid import PlannedRun, planned_runs, read, settings

from ...tasks.test_vqa import TINY
from ...tasks.vqa_files import write_set
from .test_latent import HERE

GRID = read(HERE / "vqa.yaml")


def test_the_plan_has_five_seeds_of_each_kind():
    runs = planned_runs(GRID)
    assert len(runs) == 25
    assert {run.configuration for run in runs} == {"soft", "BAM-LF", "BAM-LC", "BAM-WF", "BAM-WC"}


def test_noise_has_its_strength_and_is_repeated():
    images = [torch.zeros(3, 64, 64, dtype=torch.uint8).numpy()] * 2
    processor = ViTImageProcessorPil(size={"height": 64, "width": 64})
    clean = processor(images, return_tensors="pt")["pixel_values"]
    noisy = [vqa.NoisyImages(processor, 0.5)(images, return_tensors="pt")["pixel_values"] for _ in range(2)]
    assert torch.equal(*noisy)
    assert (noisy[0] - clean).std().item() == pytest.approx(0.5, rel=0.02)
    assert not torch.equal(noisy[0][0], noisy[0][1])


@pytest.mark.parametrize("configuration", ["soft", "BAM-WC"])
def test_a_run(configuration, tmp_path, monkeypatch):
    monkeypatch.setattr(vqa, "SAMPLES", 3)
    values = settings(GRID, PlannedRun("vqa", configuration, 0), None)
    changes = {"num_train_epochs": 8, "batch_size": 8, "options": TINY, "data_dir": str(write_set(tmp_path / "data"))}
    vqa.work(tmp_path / "run", values | changes)
    record = json.loads((tmp_path / "run" / "record.json").read_text(encoding="utf-8"))
    record |= {"configuration": configuration, "seed": 0}
    clean = record["methods"][0]
    assert (clean["method"], clean["noise"]) == ("one pass", 0.0)
    assert clean["accuracy"] == pytest.approx(record["scores"]["test"]["accuracy"])  # that of the run itself
    assert all(0 <= row[f"pavpu {t}"] <= 1 for row in record["methods"][1::2] for t in vqa.THRESHOLDS)
    tables = vqa_tables.parts([record])
    assert all(configuration in tables[name] for name in ("original", "noisy", "curve"))


def record(configuration, seed, accuracy):
    method = {"method": "samples", "accuracy": accuracy, "nll": 0.5, "ece": 0.1}
    method |= {f"pavpu {threshold}": accuracy - 0.1 for threshold in vqa.THRESHOLDS}
    rows = [{**method, "noise": strength} for strength in vqa.STRENGTHS]
    return {"configuration": configuration, "seed": seed, "methods": rows}


def test_differences_are_paired_by_seed_and_soft_attention_comes_first():
    records = [record("BAM-WC", 1, 0.9), record("soft", 1, 0.8), record("soft", 0, 0.6), record("BAM-WC", 0, 0.7)]
    tables = vqa_tables.parts(records)
    lines = tables["differences"].splitlines()
    assert len(lines) == 4  # two of the head, original and noisy
    assert all(line.count("+10.00 ± 0.00") == 4 for line in lines[2:])
    assert tables["original"].index("| soft") < tables["original"].index("| BAM-WC")
    legend = vqa_tables.noise_figure(records).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["soft", "BAM-WC"]
