"""The suite of everything that can be done about uncertainty, against scikit-learn and with a tiny model."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, log_loss, roc_auc_score

from benchmarks.studies import uncertainty, uncertainty_tables, worker
from benchmarks.studies.grid import PlannedRun, settings

RANDOM = np.random.default_rng(0)


def probabilities(number, classes=4, samples=3):
    return RANDOM.dirichlet(np.ones(classes), size=(samples, number))


@pytest.fixture
def suite(grid, monkeypatch):
    """The grid of the tests with the suite, and few candidates of noise."""
    grid["common"] |= {"suite": "uncertainty"}
    grid["tasks"]["custom"]["ood"] = {"reader": "sets", "names": ["validation"], "rows": 4}
    grid["configurations"]["ensemble"] = {"attention": "plain", "ensemble": "plain"}
    monkeypatch.setattr(uncertainty, "POST_HOC", {"weibull": {"k": (2.0,)}})
    monkeypatch.setattr(uncertainty, "ALPHA", 0.2)
    monkeypatch.setattr(uncertainty, "MAIN", "custom")
    monkeypatch.setattr(uncertainty, "CURVE", (1, 2))
    monkeypatch.setattr("hf_bam.prediction.posthoc.LEAST_INPUTS", 2)
    monkeypatch.setattr("hf_bam.prediction.fitting.check_rate", lambda *_: None)
    return grid


def run(grid, data_dir, output, configuration, seed):
    folder = output / configuration.replace(" ", "-") / f"seed-{seed}"
    folder.mkdir(parents=True)
    worker.main(folder, settings(grid, PlannedRun("custom", configuration, seed), data_dir))
    return json.loads((folder / "record.json").read_text())


def test_a_run_has_a_row_for_each_method(suite, data_folder, tmp_path):
    plain = run(suite, data_folder.parent, tmp_path, "plain", 0)
    methods = ["plain", "MC dropout", "post-hoc weibull"]
    found = [row["method"] for row in plain["methods"] if not row["method"].startswith("Laplace")]
    assert found == [f"{name}{end}" for name in methods for end in ("", " + temperature")]
    assert plain["rows"] == {"fit": 6, "sets": 6, "test": 10, "ood": 4}
    assert plain["methods"][0]["ood_auroc_novelty"] == pytest.approx(plain["ood_scores"]["novelty"])
    assert [row["samples"] for row in plain["curve"]] == [1, 2]
    bayesian = run(suite, data_folder.parent, tmp_path, "BAM k=2", 0)
    assert [row["passes"] for row in bayesian["methods"]] == [1, 1, 3, 3]
    assert bayesian["methods"][0]["accuracy"] == bayesian["methods"][1]["accuracy"]


def test_a_run_may_have_deterministic_methods_only(suite, data_folder, tmp_path):
    suite["configurations"]["BAM k=2"] |= {"sampled": False}
    record = run(suite, data_folder.parent, tmp_path, "BAM k=2", 0)
    assert [row["method"] for row in record["methods"]] == ["mean", "mean + temperature"]
    assert "curve" not in record


def test_an_ensemble_needs_the_models_of_its_members(suite, data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "MEMBERS", 2)
    run(suite, data_folder.parent, tmp_path, "plain", 3)
    with pytest.raises(ValueError, match="needs 2 models of 'plain', there are 1"):
        run(suite, data_folder.parent, tmp_path, "ensemble", 0)
    run(suite, data_folder.parent, tmp_path, "plain", 4)
    record = run(suite, data_folder.parent, tmp_path, "ensemble", 1)
    assert [row["method"] for row in record["methods"]] == ["ensemble of 2", "ensemble of 2 + temperature"]
    assert record["methods"][0]["passes"] == 2
    assert "scores" not in record


def test_detection_is_that_of_scikit_learn():
    score = {"test": RANDOM.normal(size=50), "ood": RANDOM.normal(1, size=30)}
    truth, both = [0] * 50 + [1] * 30, np.concatenate([score["test"], score["ood"]])
    assert uncertainty.detection(score) == {
        "auroc": pytest.approx(roc_auc_score(truth, both)),
        "auprc": pytest.approx(average_precision_score(truth, both)),
    }


def test_answers_to_out_of_scope_questions_are_wrong():
    samples, labels = {"test": probabilities(40), "ood": probabilities(20)}, RANDOM.integers(4, size=40)
    _, accuracy = uncertainty.combined(samples, labels)
    right = samples["test"].mean(axis=0).argmax(axis=-1) == labels
    assert accuracy == pytest.approx(right.sum() / 60)
    certain = {name: np.eye(4)[np.zeros((1, x.shape[1]), dtype=int)] for name, x in samples.items()}
    ece, accuracy = uncertainty.combined(certain, np.zeros(40, dtype=int))
    assert (ece, accuracy) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_joint_measures_are_those_of_a_further_class():
    samples, labels = {"test": probabilities(40), "ood": probabilities(20)}, RANDOM.integers(4, size=40)
    shifts = {"fit": 0, "known_ood": 2, "test": 0, "ood": 2}
    score = {name: RANDOM.normal(shift, size=40 if shift == 0 else 20) for name, shift in shifts.items()}
    found = uncertainty.joint(samples, score, labels)
    x = np.concatenate([score["fit"], score["known_ood"]])
    model = LogisticRegression().fit(((x - x.mean()) / x.std())[:, None], [0] * 40 + [1] * 20)
    outside = np.concatenate([score["test"], score["ood"]])
    outside = model.predict_proba(((outside - x.mean()) / x.std())[:, None])[:, 1]
    mean = np.concatenate([samples["test"].mean(axis=0), samples["ood"].mean(axis=0)])
    five = np.column_stack([mean * (1 - outside)[:, None], outside])
    truth = [*labels, *[4] * 20]
    assert found["nll"] == pytest.approx(log_loss(truth, five, labels=range(5)))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, five.argmax(axis=-1)))


def record(configuration, seed, accuracy, task="clinc150"):
    row = {"method": "plain", "passes": 1, "accuracy": accuracy, "products_nll": accuracy, "pearson": accuracy}
    scores = {
        name: dict.fromkeys(("accuracy", "pearson"), accuracy) for name in ("validation", "test", "holdout", "dev")
    }
    about = {"task": task, "configuration": configuration, "seed": seed, "steps": 5}
    return {**about, "scores": scores, "methods": [row], "ood_scores": {"entropy": accuracy}}


def cells(table, start):
    """Return the cells of the line of a table that starts with some cells."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {start} |"))
    return line.strip("| ").split(" | ")


def test_tables_have_means_over_seeds_and_paired_differences():
    records = [record("plain", 0, 0.9), record("plain", 1, 0.8), record("long", 0, 0.92), record("long", 1, 0.82)]
    parts = uncertainty_tables.parts(records)
    line = cells(parts["training"], "clinc150, accuracy | long")
    assert line[4:] == ["0.8700 ± 0.6353", "+0.0200 ± 0.0000", "0.8700 ± 0.6353", "+0.0200 ± 0.0000"]
    assert "| plain | plain | 2 | 1 ± 0 | 0.8500 ± 0.6353 |" in parts["methods"]
    assert "| clinc150 | plain | 2 | 0.8500 ± 0.6353 |" in parts["scores"]
    assert parts["curve"] == parts["pairs"] == parts["tasks"] == parts["regression"] == uncertainty_tables.NONE_YET


def test_differences_are_means_over_tasks_with_enough_seeds():
    gains = {"sentiment": (0.01, 0.02, 0.03), "sts-b": (0.0, 0.02, 0.04), "clinc150": (0.5,)}
    records = [
        record(name, seed, 0.5 + (gain if name != "plain" else 0), task)
        for task, own in gains.items()
        for seed, gain in enumerate(own)
        for name in ("plain", uncertainty_tables.CONSISTENT)
    ]
    parts = uncertainty_tables.parts(records)
    variances = [np.var(gains[task], ddof=1) / 3 for task in ("sentiment", "sts-b")]
    freedom = sum(variances) ** 2 / sum(own**2 / 2 for own in variances)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(sum(variances)) / 2
    expected = f"+0.0200 ± {half:.4f}"
    assert cells(parts["training"], "mean of 2 tasks | plain, consistency")[-1] == expected
    assert cells(parts["pairs"], "plain, consistency, plain | plain | sentiment, sts-b")[3] == expected
    assert "0.520 ± 0.025" in cells(parts["shift"], "plain, consistency | plain | 3")
    assert cells(parts["regression"], "plain, consistency | plain | 3")[4] == "0.520 ± 0.050"
    assert "### sentiment" in parts["tasks"]
    assert "sts-b" not in parts["tasks"]


def test_intervals_of_one_half_hold_on_the_other():
    std = RANDOM.uniform(0.5, 2, size=4000)
    truth = RANDOM.normal(size=4000) * std
    covered = uncertainty.coverage_of_halves(truth, np.zeros(4000), std)
    assert stats.binomtest(round(4000 * covered), 4000, 1 - uncertainty.ALPHA).pvalue > 1e-3
    # errors of twice the size are covered less often
    shifted = uncertainty.IntervalFit.fit(truth, np.zeros(4000), std, uncertainty.ALPHA)
    low, high = shifted.intervals(np.zeros(4000), std)
    assert np.mean((low <= 2 * truth) & (2 * truth <= high)) < covered - 0.1
