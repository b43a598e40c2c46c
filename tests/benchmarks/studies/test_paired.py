"""Paired differences."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.studies.frames import method_rows
from benchmarks.studies.paired import differences


def test_differences_within_a_task_are_those_of_the_paired_t_test():
    scores = {"plain": [0.80, 0.84, 0.79, 0.85], "x": [0.81, 0.86, 0.79, 0.87]}
    records = [
        {"task": "t", "configuration": name, "seed": seed, "methods": [{"method": "plain", "accuracy": value}]}
        for name, values in scores.items()
        for seed, value in enumerate(values)
    ]
    mean, half, _ = differences(method_rows(records), "score")["x, plain"]
    interval = stats.ttest_rel(scores["x"], scores["plain"]).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx(interval)


def test_differences_over_tasks_are_those_of_welch():
    """The tasks have different numbers of seeds and variances; an ensemble is the same for each seed."""
    generator = np.random.default_rng(0)
    gains = {"a": generator.normal(0.1, 0.05, size=5), "b": generator.normal(0.2, 0.01, size=3)}
    plain = {"a": generator.uniform(size=5), "b": generator.uniform(size=3)}
    rows = [
        {"task": task, "seed": seed, "method": method, "nll": value}
        for task in gains
        for method, values in {"x": plain[task] + gains[task], "plain": plain[task], "ensemble of 5": [0.3]}.items()
        for seed, value in enumerate(values)
    ]
    found = differences(pd.DataFrame(rows), "nll")
    mean, half, tasks = found["x"]
    assert tasks == ["a", "b"]
    sum_of_means = stats.ttest_ind(gains["a"], -gains["b"], equal_var=False)  # of one minus the other's negative
    interval = sum_of_means.confidence_interval(0.95)
    assert (2 * (mean - half), 2 * (mean + half)) == pytest.approx(interval)
    assert found["ensemble of 5"][0] == pytest.approx(0.3 - (plain["a"].mean() + plain["b"].mean()) / 2)


def test_two_seeds_are_too_few():
    rows = [{"task": "t", "seed": seed, "method": method, "nll": 0.5} for seed in (0, 1) for method in ("plain", "x")]
    assert differences(pd.DataFrame(rows), "nll") == {}
