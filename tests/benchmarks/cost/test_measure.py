"""Time and memory measurements."""

import operator
from functools import partial

import numpy as np
import pytest

from benchmarks.cost import measure
from benchmarks.cost.scaling import exponent


def test_interleaved_runs_take_turns_in_both_orders(monkeypatch):
    """Each call takes as many seconds of a fake clock as its name says."""
    clock, calls = [0.0], []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def run(name, seconds):
        calls.append(name)
        clock[0] += seconds

    runs = {"one": lambda: run("one", 1.0), "three": lambda: run("three", 3.0)}
    found = measure.interleaved(runs, repetitions=3)
    assert calls == ["three", "one", "one", "three", "three", "one", "one", "three"]
    assert found["seconds"] == {"one": [1.0] * 3, "three": [3.0] * 3}
    assert found["ratio"] == {"one": [1.0] * 3, "three": [3.0] * 3}


def test_the_rise_of_the_peak_is_the_memory_of_the_measured_part():
    """The prepared function is a product of bytes, which a new process finds without further imports."""
    peaks = [measure.peak_memory(partial, operator.mul, b"x", megabytes << 20) for megabytes in (100, 300)]
    assert peaks[1]["rise"] - peaks[0]["rise"] == pytest.approx(200, abs=10)


def test_the_exponent_of_a_power():
    sizes = np.array([512, 1024, 2048])
    assert exponent(sizes, 1e-6 * sizes**1.7) == 1.7
