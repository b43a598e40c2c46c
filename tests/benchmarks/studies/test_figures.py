"""Figures of the study."""

import pandas as pd
import pytest

from benchmarks.studies import figures

SEEDS = (0, 1, 2)


def test_scores_are_differences_in_percentage_points():
    """CoLA has fractions, SQuAD has percent; translation is represented by the configuration with dropout."""
    gains = {
        ("cola", "dev", "matthews", "BAM-WC"): 0.02,
        ("squad", "dev", "f1", "BAM-WC"): -2.0,
        ("translation", "test_2016_flickr", "bleu", "BAM-WC"): 9.0,
        ("translation", "test_2016_flickr", "bleu", "BAM-WC and dropout"): -1.5,
    }
    rows = [
        {"task": task, "set": name, "metric": metric, "method": method, "seed": seed, "value": value}
        for (task, name, metric, configuration), gain in gains.items()
        for method, value in {"plain": 0.5, configuration: 0.5 + gain}.items()
        for seed in SEEDS
    ]
    found = figures.score_differences(pd.DataFrame(rows).drop_duplicates())["BAM"]
    means = {task: mean for task, (mean, _) in found.items()}
    assert means == pytest.approx({"cola": 2.0, "squad": -2.0, "translation": -1.5})


def test_uncertainty_has_a_point_for_each_task_and_the_mean():
    gains = {"cola": 0.1, "rte": 0.3}
    rows = [
        {"task": task, "seed": seed, "method": method, **dict.fromkeys(figures.MEASURES, value)}
        for task, gain in gains.items()
        for method, value in {"plain": 0.5, "BAM-WC, samples": 0.5 + gain}.items()
        for seed in SEEDS
    ]
    figure = figures.uncertainty(pd.DataFrame(rows))
    assert len(figure.axes) == len(figures.MEASURES)
    for axes in figure.axes:
        points = {line.get_label(): line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 1}
        assert points["CoLA"] == pytest.approx([0.1])
        assert points["RTE"] == pytest.approx([0.3])
        (mean,) = (container.lines[0].get_xdata() for container in axes.containers)
        assert mean == pytest.approx([0.2])
