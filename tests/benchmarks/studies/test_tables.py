"""Tables of the study."""

import pandas as pd
import pytest
from scipy import stats

from benchmarks.studies import tables
from benchmarks.studies.frames import method_rows, score_rows


def rows_of(values, names):
    """Return rows of all measures `names`, from values by method, task and seed."""
    return pd.DataFrame(
        [
            {"task": task, "seed": seed, "method": method, **dict.fromkeys(names, value)}
            for method, tasks in values.items()
            for task, seeds in tasks.items()
            for seed, value in enumerate(seeds)
        ]
    )


def test_pairs_name_the_tasks_with_three_seeds():
    """In `a` one of the methods has two."""
    dropout = {"a": [0.5, 0.6, 0.6], "b": [0.5, 0.6, 0.6]}
    values = {"MC dropout": dropout, "BAM-WC, samples": {"a": [0.5, 0.5], "b": [0.4, 0.5, 0.5]}}
    *_, last = tables.pair_table(rows_of(values, tables.PAIRED)).splitlines()
    assert last == "| BAM-WC, samples | MC dropout | b |" + " -0.100 ± 0.000 |" * 6


def test_pairs_of_other_tasks_have_the_measures_of_each_task():
    plain = {"a": [0.5, 0.6, 0.5], "b": [20.0, 21.0, 20.0]}
    values = {"plain": plain, "BAM-WC, samples": {"a": [0.6, 0.7, 0.6], "b": [22.0, 23.0, 22.0]}}
    rows = rows_of(values, ["score"])
    rows["crps"] = rows["score"].where(rows["task"] == "a")
    rows = pd.concat([rows, pd.DataFrame([{"task": "once", "seed": 0, "method": "plain", "score": 0.5}])])
    text = tables.by_task(rows, lambda own: tables.pair_table(own, tables.PAIRED_OTHERS))
    assert text.splitlines() == [
        "### a",
        "",
        "| method | minus | tasks | score | crps |",
        "| :--- | :--- | :--- | ---: | ---: |",
        "| BAM-WC, samples | plain | a | +0.100 ± 0.000 | +0.100 ± 0.000 |",
        "",
        "### b",
        "",
        "| method | minus | tasks | score |",
        "| :--- | :--- | :--- | ---: |",
        "| BAM-WC, samples | plain | b | +2.000 ± 0.000 |",
    ]


def test_scores_of_whole_sets_and_their_paired_gains():
    values = {"plain": [0.80, 0.84, 0.79], "x": [0.81, 0.86, 0.80], "once": [0.9]}
    records = [
        {"task": "t", "configuration": name, "seed": seed, "scores": {"dev": {"f1": value}, "holdout": {"f1": 0}}}
        for name, scores in values.items()
        for seed, value in enumerate(scores)
    ]
    scores = score_rows(records)
    *_, last = tables.score_table(scores).splitlines()
    assert last == "| t | dev | f1 | 0.810 ± 0.026 | 0.823 ± 0.032 | 0.900 |"
    *_, last = tables.gain_table(scores).splitlines()
    low, high = stats.ttest_rel(values["x"], values["plain"]).confidence_interval(0.95)
    assert last == f"| t | dev | f1 | {(low + high) / 2:+.3f} ± {(high - low) / 2:.3f} |"


def held_out(**values):
    names = ("accuracy", "nll", "error_auroc", "epistemic", "nll + temperature")
    return {**dict.fromkeys(names, 0.5), **values}


def test_the_selection_has_the_nll_at_every_level():
    record = {"task": "t", "configuration": "plain", "seed": 0, "held_out": {"plain": held_out(nll=0.6)}}
    losses = {"noise untrained": {"5.0": 0.4, "1.0": 0.3}, "MC dropout": {"0.1": 0.5, "0.2": 0.6}}
    record["selection"] = {name: {"level": 1.0, "losses": own} for name, own in losses.items()}
    other = {"task": "t", "configuration": "x", "seed": 0, "held_out": {"mean": held_out()}, "selection": {}}
    *_, last = tables.selection_table([record, other]).splitlines()
    assert last == "| t | plain | noise untrained | 0.600 | 0.400 | 0.300 |"


def test_pilot_runs_have_means_over_seeds_on_held_out_rows():
    records = [
        {
            "task": "t",
            "configuration": "x",
            "seed": seed,
            "held_out": {"mean": held_out(nll=nll), "samples": held_out()},
        }
        for seed, nll in enumerate([0.2, 0.4])
    ]
    plain = {"plain": held_out(), "MC dropout": held_out()}
    records.append({"task": "s", "configuration": "y", "held_out": plain})
    *_, first, last = tables.pilot_table(records).splitlines()
    assert first.startswith("| s | y | 1 | 0.500 | 0.500 |")
    assert last.startswith("| t | x | 2 | 0.500 ± 0.000 | 0.300 ± 0.141 | 0.500 ± 0.000 |")


def test_the_best_k_depends_on_the_weight_of_the_kl():
    rows = [{"k": k, "task_loss": 1 / k, "kl": k} for k in (20.0, 5.0, 2.0, 1.0)]
    records = [{"task": "t", "configuration": "x", "objective": rows}, {"task": "t", "configuration": "plain"}]
    *_, last = tables.objective_table(records).splitlines()
    assert last == "| t | x | 0.050 / 20.00 | 0.200 / 5.00 | 1.000 / 1.00 | 20 | 20 | 20 | 5 | 1 |"


def test_ranks_compare_methods_on_the_same_seeds():
    """`once` has the best seed only; `other` is better than plain with two seeds of three; `u` has no ensemble."""
    nll = {"plain": {"t": [0.5, 0.6, 0.7]}, "other": {"t": [0.4, 0.5, 0.8]}, "once": {"t": [0.1]}}
    rows = rows_of(nll, tables.RANKED)
    other_task = rows[rows["method"] == "plain"].assign(task="u")
    ensemble = rows[:1].assign(method="ensemble of 5")
    first, second = tables.rank_table(pd.concat([rows, other_task, ensemble])).splitlines()[2:]
    assert first == "| other | 1.7 | 1.3 | 1.3 | 1.3 | 1.7 | 1.3 |"
    assert second == "| plain | 1.3 | 1.7 | 1.7 | 1.7 | 1.3 | 1.7 |"
    assert tables.rank_table(rows) == "No task has an ensemble yet."


def test_costs_are_relative_to_plain_with_the_same_seed():
    def record(configuration, seed, seconds, prediction):
        methods = [{"method": "plain", "seconds": prediction}]
        about = {"task": "t", "configuration": configuration, "seed": seed, "peak_megabytes": 100}
        return {**about, "training_seconds": seconds, "methods": methods}

    records = [record("plain", 0, 10.0, 1.0), record("plain", 1, 20.0, 2.0)]
    records += [record("x", 0, 30.0, 4.0), record("x", 1, 20.0, 4.0)]
    *_, plain, other = tables.cost_table(method_rows(records)).splitlines()
    assert plain == "| plain | 1.00 | 1.00 | 1.00 |"
    assert other == "| x, plain | 2.00 | 1.00 | 3.00 |"


@pytest.mark.parametrize(("values", "text"), [([0.5], "0.500"), ([0.4, 0.6], "0.500 ± 0.141"), ([None], "-")])
def test_a_mean_has_a_deviation_if_there_are_several_values(values, text):
    assert tables.mean_std(pd.Series(values, dtype=float)) == text
