"""Study on citation graphs: plan, execution and tables."""

import json
from types import SimpleNamespace

import pytest
from scipy import stats

pytest.importorskip("torch_geometric")

from benchmarks.pages import DOCS
from benchmarks.run import HERE
from benchmarks.storage import read_lines
from benchmarks.studies import graph_tables, graphs
from benchmarks.studies.grid import read
from hf_bam.training.graphs import GraphJob

from ...graph.planetoid_files import write_graph

PLAN = read(HERE / "studies" / "graphs.yaml")


def test_the_plan_has_every_variant_of_the_table_and_valid_settings():
    assert set(graph_tables.PAPER["cora"]) == {name for name in PLAN["configurations"] if "default" not in name}
    for settings in PLAN["configurations"].values():
        GraphJob(**settings)
    assert PLAN["seeds"] >= 20


def test_seeds_come_one_after_the_other():
    plan = {"graphs": ["a", "b"], "configurations": {"x": {}, "y": {}}, "seeds": 2}
    runs = graphs.planned_runs(plan)
    assert [tuple(run) for run in runs[:5]] == [
        ("a", "x", 0),
        ("a", "y", 0),
        ("b", "x", 0),
        ("b", "y", 0),
        ("a", "x", 1),
    ]
    assert len(runs) == 8
    assert graphs.planned_runs(plan, ["b"], ["y"], 1) == [("b", "y", 0)]
    with pytest.raises(ValueError, match="--graphs 'c' is not in the plan; it has a, b"):
        graphs.planned_runs(plan, ["c"])


def test_a_study_continues_with_the_first_missing_run(tmp_path, monkeypatch, capsys):
    write_graph(tmp_path / "planetoid", "cora")
    quick = {"max_epochs": 3, "num_samples": 2}
    configurations = {
        "GAT": {"variant": "gat", **quick},
        "default k=2": {"variant": "bam", "bam": {"k": 2.0}, **quick},
    }
    (tmp_path / "plan.yaml").write_text(json.dumps({"graphs": ["cora"], "configurations": configurations, "seeds": 2}))
    options = {"grid": tmp_path / "plan.yaml", "records": tmp_path / "records.jsonl", "data_dir": tmp_path}
    options |= {"graphs": None, "configurations": None, "seeds": 1, "jobs": 1}
    graphs.main(SimpleNamespace(**options))
    assert "0 of 2 runs are finished" in capsys.readouterr().out
    graphs.main(SimpleNamespace(**options | {"seeds": None}))
    printed = capsys.readouterr().out
    assert "2 of 4 runs are finished" in printed
    assert "cora, GAT, seed 1: accuracy" in printed
    records = read_lines(tmp_path / "records.jsonl")
    assert [(record["configuration"], record["seed"]) for record in records] == [
        ("GAT", 0),
        ("default k=2", 0),
        ("GAT", 1),
        ("default k=2", 1),
    ]
    assert records[0]["bam"] is None
    assert records[1]["bam"]["k"] == 2
    assert records[1]["selected"]["loss"]["test"]["mean"]["pavpu"] is None
    for part in graph_tables.parts(records).values():
        assert part.startswith("| graph |")


def test_numbers_are_rounded():
    assert graphs.rounded({"a": 0.123456789, "b": {"c": float("nan"), "d": 1e-10, "e": 3}}) == {
        "a": 0.12346,
        "b": {"c": None, "d": 1e-10, "e": 3},
    }


def record(configuration, seed, accuracy, nll=1.0, validation=1.0):
    def measures(accuracy, nll):
        names = ("ece", "error_auroc", "pavpu", "epistemic")
        return {"accuracy": accuracy, "nll": nll, **dict.fromkeys(names, 0.5)}

    methods = ("mean", "MC dropout") if configuration == "GAT" else ("mean", "samples", "samples and dropout")
    kept = {
        "epoch": 3,
        "test": {method: measures(accuracy, nll) for method in methods},
        "validation": {method: measures(accuracy, validation) for method in methods},
    }
    about = {"graph": "cora", "configuration": configuration, "seed": seed, "epochs": 10, "seconds": 0.5}
    return {**about, "selected": {"published": kept, "loss": kept}}


def test_table_1_has_intervals_and_differences_paired_by_seed():
    records = [record("GAT", 0, 0.82), record("GAT", 1, 0.84), record("BAM-WC", 0, 0.83), record("BAM-WC", 1, 0.85)]
    half = stats.t.ppf(0.975, 1) * 1.0  # standard error of 82 and 84
    lines = graph_tables.table_1(records).splitlines()
    assert lines[2] == f"| cora | GAT | 2 | 83.00 ± {half:.2f} | - | 83.00 | - |"
    assert lines[3] == f"| cora | BAM-WC | 2 | 84.00 ± {half:.2f} | +1.00 ± 0.00 | 83.81 | +0.81 |"


def test_validation_nodes_choose_k_for_each_seed():
    records = [
        *(record("GAT", seed, 0.8, nll=0.7) for seed in range(3)),
        *(record("default k=1", seed, 0.8, nll=0.6, validation=0.5 + 0.1 * seed) for seed in range(3)),
        *(record("default k=2", seed, 0.9, nll=0.5, validation=0.55) for seed in range(3)),
    ]
    lines = graph_tables.choice_table(records).splitlines()
    assert [line.split(" | ")[-1] for line in lines[2:]] == ["1 of 3 seeds |", "2 of 3 seeds |"]
    (line,) = (line for line in graph_tables.measure_table(records).splitlines() if "default | samples |" in line)
    assert line.startswith("| cora | default | samples | 86.67 ±")
    (line,) = (
        line for line in graph_tables.pair_table(records).splitlines() if "default, samples | GAT, mean" in line
    )
    assert "| 3 | +6.67 ±" in line
    assert "| -0.167 ±" in line


def test_costs_are_medians():
    lines = graph_tables.cost_table([record("GAT", seed, 0.8) for seed in range(3)]).splitlines()
    assert lines[2] == "| cora | GAT | 3 | 10 | 3 | 3 | 0 | 50 |"


def test_tables_without_records():
    assert set(graph_tables.parts([]).values()) == {graph_tables.NONE_YET}


def test_the_page_names_the_commands():
    text = (DOCS / "graphs.md").read_text(encoding="utf-8")
    assert "python benchmarks/run.py graphs" in text
