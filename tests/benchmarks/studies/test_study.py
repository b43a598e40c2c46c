"""The study on real tasks, with tiny models: its plan, one cell of it, and its tables."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy import stats
from sklearn.metrics import log_loss

import hf_bam

from .conftest import BENCHMARKS


@pytest.fixture
def grid(model_folder, data_folder):
    columns = {"text_column": "text", "label_column": "label"}
    tiny = {"num_train_epochs": 1, "holdout": 12, "num_samples": 3, "uncertainty_rows": 10, "logging_steps": 1}
    return {
        "common": {"recipe": "fast", "model_name_or_path": str(model_folder), **tiny},
        "tasks": {"custom": {"data": data_folder.name, "options": columns}},
        "trainings": {"plain": {"attention": "plain"}, "BAM k=2": {"bam": {"k": 2.0}}},
        "plan": [{"tasks": ["custom"], "trainings": ["plain", "BAM k=2"], "seeds": [0]}],
    }


def test_the_plan_names_every_cell_once_in_its_order(benchmarks):
    plan = [
        {"tasks": ["a"], "trainings": ["x", "y"], "seeds": [0]},
        {"tasks": ["a", "b"], "trainings": ["x"], "seeds": [0, 1]},
    ]
    expected = [(0, "a", "x"), (0, "a", "y"), (1, "a", "x"), (0, "b", "x"), (1, "b", "x")]
    assert benchmarks("study").cells({"plan": plan}) == expected


def test_the_settings_of_the_training_win_field_by_field(benchmarks):
    grid = {
        "common": {"num_samples": 32, "bam": {"k": 5, "beta": 10}},
        "tasks": {"t": {"num_samples": 8, "data": "glue"}},
        "trainings": {"x": {"bam": {"k": 1}}},
    }
    expected = {
        "task_name": "t",
        "seed": 3,
        "num_samples": 8,
        "bam": {"k": 1, "beta": 10},
        "data_dir": str(Path("root", "glue")),
    }
    assert benchmarks("study").settings(grid, 3, "t", "x", "root") == expected


def test_the_paper_has_settings_for_each_task(benchmarks):
    study, resolve = benchmarks("study"), benchmarks("hf_bam.training.settings").resolve
    grid = {
        "common": {"recipe": "fast", "model_name_or_path": "m"},
        "tasks": {"cola": {}, "mrpc": {}, "sentiment": {}},
        "trainings": {"paper": {"bam": {"preset": "own"}}},
    }
    found = {task: resolve(study.settings(grid, 0, task, "paper", "data")).recipe.bam for task in grid["tasks"]}
    assert {task: bam.k for task, bam in found.items()} == {"cola": 10, "mrpc": 100, "sentiment": 1000}
    assert {bam.kl_weight for bam in found.values()} == {1}


def test_every_cell_of_the_committed_plan_can_be_resolved(benchmarks):
    study, resolve = benchmarks("study"), benchmarks("hf_bam.training.settings").resolve
    grid = yaml.safe_load((BENCHMARKS / "study.yaml").read_text())
    for seed, task, training in study.cells(grid):
        spec = study.settings(grid, seed, task, training, "data")
        job = resolve({name: value for name, value in spec.items() if name not in ("strange", "own", "screen")})
        assert (job.task_name, job.seed, job.attention) == (
            task,
            seed,
            "plain" if training.startswith("plain") else "bam",
        )


@pytest.mark.parametrize("training", ["plain", "BAM k=2"])
def test_a_cell_measures_every_method(benchmarks, grid, data_folder, tmp_path, training):
    spec = benchmarks("study").settings(grid, 0, "custom", training, data_folder.parent)
    benchmarks("cell").main(tmp_path, spec)
    record = json.loads((tmp_path / "record.json").read_text())
    kinds = ["plain", "MC dropout", "noise untrained", "token noise untrained"]
    kinds = kinds if training == "plain" else ["mean", "draws", "draws and dropout"]
    assert [row["method"] for row in record["methods"]] == [*kinds, *(f"{kind} + temperature" for kind in kinds)]
    for name, tried in record["held_out"].items():
        assert tried["nll by strength"][str(tried["best"])] == min(tried["nll by strength"].values()) == tried["nll"]
        assert tried["nll + temperature"] <= tried["nll"]
        (row,) = (row for row in record["methods"] if row["method"] == name)
        assert row["draws"] == (1 if name in ("plain", "mean") else 3)
        assert row["accuracy"] == row["score_accuracy"]
    assert ("objective" in record) == (training != "plain")
    if training == "plain":
        own, first = record["predictions"]["own"], record["methods"][0]
        assert first["nll"] == pytest.approx(log_loss(own["labels"], own["probabilities"]), abs=1e-4)
        right = np.argmax(own["probabilities"], axis=-1) == own["labels"]
        assert first["accuracy"] == right.mean()
        assert len(record["predictions"]["holdout"]["labels"]) == 12


@pytest.mark.parametrize(("training", "kinds"), [("plain", ["plain", "MC dropout"]), ("BAM k=2", ["mean", "draws"])])
def test_other_noise_is_tried_with_the_first_seed_only(benchmarks, grid, data_folder, tmp_path, training, kinds):
    spec = benchmarks("study").settings(grid, 1, "custom", training, data_folder.parent)
    benchmarks("cell").main(tmp_path, spec)
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["method"] for row in record["methods"]] == [*kinds, *(f"{kind} + temperature" for kind in kinds)]
    assert "objective" not in record


def test_a_screened_cell_says_nothing_of_the_evaluation_sets(benchmarks, grid, data_folder, tmp_path):
    grid["trainings"]["BAM k=2"]["screen"] = True
    spec = benchmarks("study").settings(grid, 0, "custom", "BAM k=2", data_folder.parent)
    benchmarks("cell").main(tmp_path, spec)
    record = json.loads((tmp_path / "record.json").read_text())
    assert list(record["scores"]) == ["holdout"]
    assert "methods" not in record
    assert record["held_out"]["draws"]["nll"] > 0


@pytest.mark.parametrize("training", ["plain", "BAM k=2"])
def test_where_there_are_no_classes_held_out_rows_choose_the_dropout_rate(benchmarks, grid, tmp_path, training):
    cell, generator = benchmarks("cell"), np.random.default_rng(0)
    for name, number in {"train": 44, "validation": 14}.items():
        rows = {"text": generator.choice(["good film", "bad film"], number), "label": generator.normal(size=number)}
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    grid["tasks"]["custom"] |= {"data": tmp_path.name}
    grid["tasks"]["custom"]["options"]["regression"] = True
    cell.main(tmp_path / "out", benchmarks("study").settings(grid, 1, "custom", training, tmp_path.parent))
    one, drawn = json.loads((tmp_path / "out" / "record.json").read_text())["methods"]
    assert (one["draws"], drawn["draws"], one["strength"]) == (1, 3, None)
    losses = {rate: drawn.get(f"held-out loss, {rate}") for rate in cell.RATES}
    if training == "plain":
        assert drawn["strength"] == min(losses, key=losses.get)
        assert len({*losses.values()}) == len(losses)
    else:
        assert {*losses.values(), drawn["strength"]} == {None}


def test_the_objective_without_noise_is_the_loss_of_the_plain_model(benchmarks, grid, data_folder):
    """The first k is large, so that draws are close to the mean attention."""
    spec = benchmarks("study").settings(grid, 0, "custom", "BAM k=2", data_folder.parent)
    job = benchmarks("hf_bam.training.settings").resolve(spec)
    task = job.make_task()
    data = task.load(job.data_dir)
    model, tokenizer = task.build(job.model_name_or_path, data)
    inputs = tokenizer(list(data.train["sentence1"]), padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model.eval()(**inputs, labels=torch.tensor(data.train["label"])).loss
    hf_bam.patch(model, k=2.0)
    first, *others = benchmarks("cell").objective(job, task, model, tokenizer, data.train)
    assert first["k"] == 20
    assert first["task_loss"] == pytest.approx(float(expected), abs=0.01)
    assert len({row["kl"] for row in others}) == len(others)


def test_a_plan_that_changes_while_it_runs_is_followed(benchmarks, grid, tmp_path, monkeypatch):
    """The first cell takes what was planned after it out of the plan, and puts something else there."""
    study, path = benchmarks("study"), tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(grid))

    def run(cell, spec, options):
        changed = [{"tasks": ["custom"], "trainings": ["plain"], "seeds": [0, 7]}]
        path.write_text(yaml.safe_dump(grid | {"plan": changed}))
        return {"seed": cell[0], "training": cell[2], "num_samples": spec["num_samples"]}

    monkeypatch.setattr(study, "run", run)
    options = Namespace(grid=path, records=tmp_path / "study.jsonl", output=tmp_path, data_dir="data", jobs=1)
    study.main(options)
    expected = [{"seed": seed, "training": "plain", "num_samples": 3} for seed in (0, 7)]
    assert study.records(options.records) == expected


@pytest.mark.slow
def test_a_study_that_was_stopped_goes_on(benchmarks, grid, data_folder, tmp_path, capsys):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    paths = {"grid": tmp_path / "grid.yaml", "records": tmp_path / "study.jsonl", "output": tmp_path / "out"}
    study, options = benchmarks("study"), Namespace(**paths, data_dir=data_folder.parent, jobs=2)
    study.main(options)
    first, second = sorted(study.records(options.records), key=lambda record: record["training"])
    assert (first["training"], second["training"]) == ("BAM k=2", "plain")
    options.records.write_text(json.dumps(first) + "\n")
    capsys.readouterr()
    study.main(options)
    printed = capsys.readouterr().out
    assert "1 cells are done, 1 are missing" in printed
    assert "other settings" not in printed
    again = study.records(options.records)[1]
    assert (again["scores"], again["training_seconds"]) == (second["scores"], second["training_seconds"])
    options.grid.write_text(yaml.safe_dump(grid | {"common": {**grid["common"], "num_samples": 4}}))
    study.main(options)
    assert capsys.readouterr().out.count("was made with other settings") == 2


def test_differences_to_plain_are_paired(benchmarks):
    report = benchmarks("report")
    scores = {"plain": [0.80, 0.84, 0.79, 0.85], "x": [0.81, 0.86, 0.79, 0.87]}
    found = [
        {"task": "t", "training": training, "seed": seed, "methods": [{"method": "plain", "accuracy": value}]}
        for training, values in scores.items()
        for seed, value in enumerate(values)
    ]
    mean, half, _ = benchmarks("paired").differences(report.frame(found), "score")["x, plain"]
    interval = stats.ttest_rel(scores["x"], scores["plain"]).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx(interval)


def test_differences_over_tasks_are_those_of_welch(benchmarks):
    """The first task has other seeds and more spread; an ensemble is the same beside each seed."""
    generator = np.random.default_rng(0)
    apart = {"a": generator.normal(0.1, 0.05, size=5), "b": generator.normal(0.2, 0.01, size=3)}
    plain = {"a": generator.uniform(size=5), "b": generator.uniform(size=3)}
    rows = [
        {"task": task, "seed": seed, "method": method, "nll": value}
        for task in apart
        for method, values in {"x": plain[task] + apart[task], "plain": plain[task], "ensemble of 5": [0.3]}.items()
        for seed, value in enumerate(values)
    ]
    found = benchmarks("paired").differences(pd.DataFrame(rows), "nll")
    mean, half, tasks = found["x"]
    assert tasks == ["a", "b"]
    sum_of_means = stats.ttest_ind(apart["a"], -apart["b"], equal_var=False)  # of one minus the other's negative
    interval = sum_of_means.confidence_interval(0.95)
    assert (2 * (mean - half), 2 * (mean + half)) == pytest.approx(interval)
    assert found["ensemble of 5"][0] == pytest.approx(0.3 - (plain["a"].mean() + plain["b"].mean()) / 2)


def test_the_table_of_pairs_names_the_tasks_with_three_seeds(benchmarks):
    """In `a` one of them has two."""
    dropout = {"a": [0.5, 0.6, 0.6], "b": [0.5, 0.6, 0.6]}
    values = {"MC dropout": dropout, "BAM-WC, draws": {"a": [0.5, 0.5], "b": [0.4, 0.5, 0.5]}}
    paired = benchmarks("paired")
    rows = [
        {"task": task, "seed": seed, "method": method, **dict.fromkeys(paired.COMPARED, value)}
        for method, tasks in values.items()
        for task, seeds in tasks.items()
        for seed, value in enumerate(seeds)
    ]
    *_, last = paired.pair_table(pd.DataFrame(rows)).splitlines()
    assert last == "| BAM-WC, draws | MC dropout | b |" + " -0.100 ± 0.000 |" * 6


def test_gains_in_scores_of_whole_sets_are_paired(benchmarks):
    report, values = benchmarks("report"), {"plain": [0.80, 0.84, 0.79], "x": [0.81, 0.86, 0.80], "once": [0.9]}
    found = [
        {"task": "t", "training": training, "seed": seed, "scores": {"dev": {"f1": value}, "holdout": {"f1": 0}}}
        for training, scores in values.items()
        for seed, value in enumerate(scores)
    ]
    rows = report.score_rows(found)
    *_, last = report.score_table(rows).splitlines()
    assert last == "| t | dev | f1 | 0.810 ± 0.026 | 0.823 ± 0.032 | 0.900 |"
    *_, last = report.gain_table(rows).splitlines()
    low, high = stats.ttest_rel(values["x"], values["plain"]).confidence_interval(0.95)
    assert last == f"| t | dev | f1 | {(low + high) / 2:+.3f} ± {(high - low) / 2:.3f} |"


def test_tasks_of_another_kind_are_compared_each_by_itself(benchmarks):
    plain = {"a": [0.5, 0.6, 0.5], "b": [20.0, 21.0, 20.0]}
    values = {"plain": plain, "BAM-WC, draws": {"a": [0.6, 0.7, 0.6], "b": [22.0, 23.0, 22.0]}}
    rows = [
        {"task": task, "seed": seed, "method": method, "score": value, "crps": value if task == "a" else None}
        for method, tasks in values.items()
        for task, seeds in tasks.items()
        for seed, value in enumerate(seeds)
    ]
    rows.append({"task": "once", "seed": 0, "method": "plain", "score": 0.5})
    paired, report = benchmarks("paired"), benchmarks("report")
    text = report.by_task(pd.DataFrame(rows), lambda own: paired.pair_table(own, paired.OTHERS))
    assert text.splitlines() == [
        "#### a",
        "",
        "| method | minus | tasks | score | crps |",
        "| --- | --- | --- | --- | --- |",
        "| BAM-WC, draws | plain | a | +0.100 ± 0.000 | +0.100 ± 0.000 |",
        "",
        "#### b",
        "",
        "| method | minus | tasks | score |",
        "| --- | --- | --- | --- |",
        "| BAM-WC, draws | plain | b | +2.000 ± 0.000 |",
    ]


@pytest.mark.parametrize("which", [("own", "holdout", "strange"), ("own", "holdout")])
def test_an_ensemble_is_the_mean_of_its_members(benchmarks, which):
    generator = np.random.default_rng(0)
    labels, members = np.arange(20) % 2, generator.dirichlet([1, 1], size=(5, 20))
    found = [
        {
            "task": "rte",
            "training": "plain",
            "training_seconds": 7.0,
            "methods": [{"seconds": 1.0}],
            "predictions": {name: {"probabilities": own.tolist(), "labels": labels.tolist()} for name in which},
        }
        for own in members
    ]
    ensembles = benchmarks("ensemble").ensembles
    assert list(ensembles(found[1:])) == []
    (record,) = ensembles(found)
    row, scaled = record["methods"]
    mean = members.mean(axis=0)
    assert record["training_seconds"] == 35
    assert row["score_accuracy"] == (mean.argmax(axis=-1) == labels).mean()
    assert row["nll"] == pytest.approx(log_loss(labels, mean))
    assert row.get("ood_auroc", 0.5) == pytest.approx(0.5)
    assert ("ood_auroc" in row) == ("strange" in which)
    assert scaled["nll"] < row["nll"]  # the temperature is chosen on the same rows here


def held_out(**values):
    names = ("accuracy", "nll", "error_auroc", "epistemic", "nll + temperature")
    return {"nll by strength": {"None": values.get("nll")}, **dict.fromkeys(names, 0.5), **values}


def test_the_table_of_choices_has_the_nll_at_every_strength(benchmarks):
    noisy = held_out(**{"nll by strength": {"5.0": 0.4, "1.0": 0.3}})
    plain = {"plain": held_out(nll=0.5), "noise untrained": noisy, "MC dropout": held_out()}
    found = [
        {"task": "t", "training": "plain", "seed": 0, "held_out": plain},
        {"task": "t", "training": "x", "seed": 0, "held_out": {"mean": held_out(), "draws": held_out()}},
    ]
    *_, last = benchmarks("report").choice_table(found).splitlines()
    assert last == "| t | plain | noise untrained | 0.500 | 0.400 | 0.300 |"


def test_the_table_of_trainings_has_their_means_on_held_out_rows(benchmarks):
    found = [
        {"task": "t", "training": "x", "seed": seed, "held_out": {"mean": held_out(nll=nll), "draws": held_out()}}
        for seed, nll in enumerate([0.2, 0.4])
    ]
    found.append(
        {"task": "s", "training": "y", "seed": 0, "held_out": {"plain": held_out(), "MC dropout": held_out()}}
    )
    *_, first, last = benchmarks("report").screen_table(found).splitlines()
    assert first.startswith("| s | y | 1 | 0.500 | 0.500 |")
    assert last.startswith("| t | x | 2 | 0.500 ± 0.000 | 0.300 ± 0.141 | 0.500 ± 0.000 |")


def test_the_table_of_the_objective_has_the_k_that_each_weight_of_the_kl_prefers(benchmarks):
    rows = [{"k": k, "task_loss": 1 / k, "kl": k} for k in (20.0, 5.0, 2.0, 1.0)]
    found = [{"task": "t", "training": "x", "objective": rows}, {"task": "t", "training": "plain"}]
    table = benchmarks("report").objective_table(found)
    assert table.splitlines()[-1] == "| t | x | 0.050 / 20.00 | 0.200 / 5.00 | 1.000 / 1.00 | 20 | 20 | 20 | 5 | 1 |"


def test_ranks_compare_methods_on_the_same_seeds(benchmarks):
    """`lucky` ran once, with the best seed; `other` is ahead of plain with two seeds of three; `u` is no main task."""
    nll = {"plain": [0.5, 0.6, 0.7], "other": [0.4, 0.5, 0.8], "lucky": [0.1]}
    names = ("score", "nll", "ece", "brier", "error_auroc", "aurc")
    rows = [
        {"task": "t", "seed": seed, "method": method, **dict.fromkeys(names, value)}
        for method, values in nll.items()
        for seed, value in enumerate(values)
    ]
    elsewhere = [{**row, "task": "u"} for row in rows if row["method"] == "plain"]
    together = [{**rows[0], "method": "ensemble of 5"}]
    rank_table = benchmarks("paired").rank_table
    first, second = rank_table(pd.DataFrame(rows + elsewhere + together)).splitlines()[2:]
    assert first == "| other | 1.7 | 1.3 | 1.3 | 1.3 | 1.7 | 1.3 |"
    assert second == "| plain | 1.3 | 1.7 | 1.7 | 1.7 | 1.3 | 1.7 |"
    assert rank_table(pd.DataFrame(rows)) == "No task has an ensemble yet."
