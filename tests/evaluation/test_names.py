"""What the top of the package hands out of this room, and when it is imported."""

import subprocess
import sys

import hf_bam
from hf_bam.evaluation import comparison, metrics, plots, report


def test_names_of_the_top_are_those_of_the_room():
    assert hf_bam.compare is comparison.compare
    assert hf_bam.report is report.report
    assert hf_bam.metrics is metrics
    assert hf_bam.plots is plots


def test_predictions_do_not_import_matplotlib():
    check = "import sys, hf_bam; hf_bam.prediction, hf_bam.compare; print('matplotlib' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", check], text=True).strip() == "False"
