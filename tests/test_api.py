"""Names at the top of the package, and the imports that they cause."""

import subprocess
import sys

import pytest

import hf_bam
from hf_bam import prediction
from hf_bam.evaluation import comparison, metrics, plots, report


def test_every_public_name_exists():
    assert len({id(getattr(hf_bam, name)) for name in hf_bam.__all__}) == len(hf_bam.__all__)


def test_names_are_those_of_the_subpackages():
    assert hf_bam.compare is comparison.compare
    assert hf_bam.report is report.report
    assert hf_bam.metrics is metrics
    assert hf_bam.plots is plots
    assert hf_bam.Predictor is prediction.Predictor


@pytest.mark.parametrize(
    ("use", "libraries"),
    [("hf_bam.patch", ("sklearn", "evaluate", "matplotlib")), ("hf_bam.Predictor, hf_bam.compare", ("matplotlib",))],
)
def test_slow_libraries_are_imported_on_use(use, libraries):
    program = f"import sys, hf_bam; {use}; print([name for name in {libraries!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
