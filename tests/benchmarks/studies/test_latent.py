"""Studies of latent variables for text: plans, data, one run of each kind, and tables."""

import json
import math

import pytest

from benchmarks.pages import DOCS, fill
from benchmarks.studies import latent, latent_tables
from benchmarks.studies.grid import PlannedRun, planned_runs, read, settings
from hf_bam.training.settings import resolve

HERE = DOCS.parent / "benchmarks" / "studies"
SMALL = {"max_steps": 3, "eval_limit": 4, "batch_size": 8, "eval_rows": 4}
SIZES = {"width": 16, "vocabulary": 80, "max_target_length": 8}


@pytest.fixture
def data_dir(tmp_path):
    for part in ("dev", "test"):
        latent.write(tmp_path / "nqg" / f"src-{part}.txt", [f"the cat {i} sat on the mat" for i in range(2100)])
        latent.write(tmp_path / "nqg" / f"tgt-{part}.txt", [f"who sat {i} ?" for i in range(2100)])
    for part in ("train", "valid", "test"):
        latent.write(tmp_path / "ptb" / f"ptb.{part}.txt", [f" the <unk> of {i} \n"[:-1] for i in range(60)])
    return tmp_path


@pytest.mark.parametrize("name", ["questions", "ptb"])
def test_every_run_of_the_plan_has_valid_settings(name, tmp_path):
    grid = read(HERE / f"{name}.yaml")
    runs = planned_runs(grid)
    assert {run.seed for run in runs} == {0, 1, 2}
    for run in runs:
        job = resolve(settings(grid, run, tmp_path))
        assert job.make_task().input_feeding is False
        assert (job.attention == "plain") == (run.configuration in ("plain", "language model"))


def test_data(data_dir, tmp_path):
    latent.prepare_questions(data_dir, tmp_path / "out")
    sizes = {
        name: len(latent.lines(tmp_path / "out" / "questions" / f"{name}.src")) for name in ("train", "dev", "test")
    }
    assert sizes == {"train": 1600, "dev": 500, "test": 2000}
    latent.prepare_ptb(data_dir, tmp_path / "out")
    assert latent.lines(tmp_path / "out" / "ptb_lm" / "valid.tgt") == latent.lines(tmp_path / "out/ptb/valid.txt")
    assert set(latent.lines(tmp_path / "out" / "ptb_lm" / "valid.src")) == {"."}


def record_of(name, configuration, data_dir, folder):
    grid = read(HERE / f"{name}.yaml")
    latent.PREPARE[name](data_dir, folder / "data")
    values = settings(grid, PlannedRun(name, configuration, 0), folder / "data")
    values = {key: value for key, value in values.items() if key != "num_train_epochs"} | SMALL
    values["options"] = {**values["options"], **SIZES}
    if "prior_epochs" in values["options"]:
        values["options"] |= {"prior_epochs": 1, "prior_width": 16, "prior_layers": 1}
    latent.work(folder / "run", values)
    return {"configuration": configuration, "seed": 0, "settings": values} | json.loads(
        (folder / "run" / "record.json").read_text()
    )


@pytest.mark.parametrize("configuration", ["plain", "Gaussian, mean prior"])
def test_a_run_with_questions(configuration, data_dir, tmp_path):
    record = record_of("questions", configuration, data_dir, tmp_path)
    assert set(record["samples"]) == {*latent_tables.QUESTIONS, *latent_tables.DIVERSITY}
    assert all(len(example["texts"]) == 10 for example in record["examples"])
    assert (len(set(record["examples"][0]["texts"])) == 1) == (configuration == "plain")
    assert configuration in latent_tables.question_table([record])


@pytest.mark.parametrize("configuration", ["language model", "VAE", "DAVAM, K = 128"])
def test_a_run_with_sentences(configuration, data_dir, tmp_path):
    record = record_of("ptb", configuration, data_dir, tmp_path)
    bound = record["bounds"]["test"]
    assert bound["bound"] == pytest.approx(bound["reconstruction"] + bound["kl"])
    assert (bound["kl"] == 0) == (configuration == "language model")
    assert record["words"]["test"] == 5
    has_codes = configuration.startswith("DAVAM")
    assert len(record["texts"]) == (10 if has_codes else 0)
    assert (record["code_perplexity"] is not None) == has_codes
    perplexity = math.exp(bound["bound"] / 5)
    assert f"{perplexity:.1f}" in latent_tables.ptb_table([record])


def test_tables_of_several_seeds():
    samples = {
        "bleu_1": 30.0,
        "bleu_2": 20.0,
        "bleu_3": 10.0,
        "bleu_4": 5.0,
        "entropy": 2.0,
        "dist_1": 0.1,
        "dist_2": 0.2,
    }
    records = []
    for seed in (0, 1, 2):
        for name, more in (("deterministic", 0.0), ("Gaussian, zero prior", 0.05)):
            own = {**samples, "dist_1": samples["dist_1"] + more + seed / 100}
            examples = [{"source": "a", "texts": ["x", "x", "y"]}]
            records.append({"configuration": name, "seed": seed, "samples": own, "examples": examples})
    assert (
        "| Gaussian, zero prior | +0.00 ± 0.00 | +0.000 ± 0.000 | +0.050 ± 0.000"
        in latent_tables.question_differences(records)
    )
    assert "| deterministic | 3 | 30.00 ± 0.00" in latent_tables.question_table(records)
    assert latent_tables.example_list(records).split("\n")[:4] == ["deterministic:", "", "- x", "- y"]


def test_the_page_has_all_parts(tmp_path):
    page = tmp_path / "latent.md"
    page.write_text((DOCS / "latent.md").read_text())
    fill(page, latent_tables.parts([], []))
    assert page.read_text().count("No run is finished yet.") == 5
