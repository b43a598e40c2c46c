"""Style of the figures: texts, and settings of matplotlib that stay as they are."""

import threading

import matplotlib
import pytest

from hf_bam.evaluation import plots
from hf_bam.evaluation.plots.style import legible


@pytest.mark.parametrize(("text", "shown"), [("a\n b", "a b"), ("$5", r"\$5"), ("abcdef", "abc…"), ("\x00a", "a")])
def test_legible(text, shown):
    assert legible(text, limit=4) == shown


def test_settings_of_matplotlib_stay_as_they_are_with_threads_too():
    before = dict(matplotlib.rcParams)
    threads = [threading.Thread(target=plots.prior_over_keys, args=(["a"], [1.0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(matplotlib.rcParams) == before
