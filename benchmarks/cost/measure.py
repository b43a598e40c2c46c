"""Time and memory measurements that a busy machine disturbs equally for all competitors."""

import multiprocessing
import re
import statistics
import time
from pathlib import Path

KILOBYTE = 1024


def interleaved(runs, repetitions, warm_up=1, clock=None):
    """Return quartiles of the seconds of each run, and of its ratio to the first run in the same repetition.

    Args:
        runs: functions without arguments, by name. They take turns, in reverse order every other time.
        clock: returns seconds, `time.perf_counter` by default; `time.process_time` counts those that the processor
            worked for this program.
    """
    clock = clock or time.perf_counter
    times = {name: [] for name in runs}
    for repetition in range(warm_up + repetitions):
        turns = list(runs.items())
        for name, run in turns if repetition % 2 else reversed(turns):
            start = clock()
            run()
            if repetition >= warm_up:
                times[name].append(clock() - start)
    first = next(iter(times.values()))
    ratios = {name: [a / b for a, b in zip(t, first, strict=True)] for name, t in times.items()}
    return {"seconds": quartiles(times), "ratio": quartiles(ratios)}


def quartiles(values):
    return {name: [round(q, 5) for q in statistics.quantiles(v, method="inclusive")] for name, v in values.items()}


def peak_memory(function, *args):
    """Return the peak memory of a new process in megabytes, and its rise while the prepared function runs.

    Args:
        function: prepares with `args` and returns the function to measure.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, peak = pool.apply(_measure, (function, args))
    return {"peak": round(peak), "rise": round(peak - before, 1)}


def _measure(function, args):
    run = function(*args)
    before = _peak()
    run()
    return before, _peak()


def _peak():
    """Return the peak of this process in megabytes, from Linux; `ru_maxrss` would include the parent process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / KILOBYTE


def reset_peak():
    """Start the peak of this process again at what it uses now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
