"""Study on latent alignments: plan, measures and tables."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import hf_bam
from benchmarks.pages import DOCS
from benchmarks.run import HERE
from benchmarks.studies import alignment_tables, alignments
from benchmarks.studies.grid import PlannedRun, planned_runs, read, settings, split
from benchmarks.studies.methods import Trained
from hf_bam.tasks.language import generate
from hf_bam.training.building import build
from hf_bam.training.settings import resolve

GRID = read(HERE / "studies" / "alignments.yaml")
TINY = {"options": {"width": 16, "vocabulary": 200}, "data_dir": None}


def test_every_run_can_be_resolved_and_all_have_the_same_seeds():
    runs = planned_runs(GRID)
    for run in runs:
        evaluation, training = split(settings(GRID, run, "data"))
        job = resolve(training)
        assert evaluation.suite == "alignments"
        assert job.attention == ("plain" if run.configuration in ("soft", "pretrained") else "bam")
        assert evaluation.start == (None if run.configuration == "pretrained" else "pretrained")
    for data in ("language", "multi30k"):
        seeds = [run.seed for run in runs if run.task.endswith(data)]
        assert seeds
        assert seeds == sorted(seeds)
    of_seeds = [{run[:2] for run in runs if run.seed == seed} for seed in range(3)]
    assert of_seeds[0] == of_seeds[1] == of_seeds[2]
    assert {task for task, _ in of_seeds[0]} == {*alignment_tables.TASKS}
    assert {*alignment_tables.PAPER} <= {name for _, name in of_seeds[0]} == {*GRID["configurations"]}
    assert all(runs.index(PlannedRun(run.task, "pretrained", run.seed)) <= runs.index(run) for run in runs)


@pytest.fixture(scope="module")
def data():
    return generate(train=600, dev=4, test=40)


def untrained(configuration, data):
    job = resolve(split(settings(GRID, PlannedRun("recurrent-language", configuration, 0), "data"))[1], TINY)
    task = job.make_task()
    torch.manual_seed(0)
    model, tokenizer = build(job, task, data)
    return Trained(job, task, model, tokenizer)


@pytest.mark.parametrize("configuration", ["soft", "marginal", "variational", "dirichlet"])
def test_measures_of_a_model(configuration, data):
    """Against one batch of all rows, and the attention of the plain model."""
    trained = untrained(configuration, data)
    rows = data.evaluation["test"]
    found = alignments.evaluate(trained, data, rows)
    features = trained.task.encode(rows, trained.tokenizer, 64)
    batch = trained.task.collator(trained.tokenizer, trained.model)(list(features))
    with torch.no_grad():
        out = trained.model.eval()(**batch, output_attentions=True)
    kept = (batch["labels"] != -100).numpy()
    assert found["perplexity"] == pytest.approx(math.exp(out.loss), rel=1e-4)
    p = out.cross_attentions[0].mean(dim=1).numpy()[kept]
    assert found["entropy_p"] == pytest.approx(stats.entropy(p, axis=-1).mean(), rel=1e-4)
    assert 0 < found["accuracy_p"] < 1
    assert ("accuracy_q" in found) == ("entropy_q" in found) == (configuration in ("variational", "dirichlet"))
    assert found["step_seconds"] > 0
    assert hf_bam.is_patched(trained.model) == (configuration != "soft")


def test_means_are_weighted():
    sums = alignments.Sums()
    for mean, weight in ((1.0, 1), (torch.tensor(4.0), torch.tensor(2))):
        sums.add("x", mean, weight)
    assert sums.means() == {"x": 3.0}


def record(configuration, seed, perplexity, step=0.1, **more):
    about = {"task": "marian-language", "configuration": configuration, "seed": seed}
    measures = {"perplexity": perplexity, "entropy_p": 1.0, "accuracy_p": 0.5, "step_seconds": step, **more}
    return {**about, **measures, "settings": {"evaluation_set": "test"}, "scores": {"test": {"bleu": 90.0}}}


def test_differences_are_paired_by_seed():
    records = [
        record("soft", 0, 2.0),
        record("soft", 1, 3.0),
        record("marginal", 1, 2.5, 0.3),
        record("marginal", 0, 1.5, 0.3),
        record("variational", 0, 1.25, entropy_q=0.5, accuracy_q=0.75),
    ]
    half = stats.t.ppf(0.975, 1) * np.std([2, 3], ddof=1) / 2**0.5
    header, _, soft, marginal, variational = alignment_tables.task_table(records, "marian-language").splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    cells = {line: [cell.strip() for cell in line.strip("|").split("|")] for line in (soft, marginal, variational)}
    rows = [dict(zip(names, own, strict=True)) for own in cells.values()]
    assert rows[0]["perplexity"] == f"2.500 ± {half:.3f}"
    assert [row["perplexity minus soft"] for row in rows] == ["-", "-0.500 ± 0.000", "-0.750"]
    assert [row["time"] for row in rows] == ["1.0", "3.0", "1.0"]
    assert [row["accuracy_q"] for row in rows] == ["-", "-", "75.0"]
    assert [row["seeds"] for row in rows] == ["2", "2", "1"]
    assert alignment_tables.task_table(records, "recurrent-language") == alignment_tables.NONE_YET


def test_the_page_names_the_commands_and_has_the_figures_of_the_paper():
    text = (DOCS / "alignments.md").read_text(encoding="utf-8")
    assert "python benchmarks/run.py alignments" in text
    assert "| variational | 6.08 | 33.68 | 0.54 |" in text
