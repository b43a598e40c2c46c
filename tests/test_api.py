"""Names at the top of the package, and the imports that they cause."""

import subprocess
import sys

import pytest

import hf_bam
from hf_bam import extras, prediction
from hf_bam.cli import COMMANDS
from hf_bam.evaluation import comparison, metrics, plots, report
from hf_bam.training.arguments import commands


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
    [
        ("hf_bam.patch", ("sklearn", "evaluate", "matplotlib", "datasets", "transformers.trainer")),
        pytest.param("hf_bam.Predictor, hf_bam.compare", ("matplotlib", "datasets"), marks=pytest.mark.slow),
    ],
)
def test_slow_libraries_are_imported_on_use(use, libraries):
    own = "from transformers import AutoModel; before = {*sys.modules}"  # some versions import sklearn for it
    found = f"[name for name in {libraries!r} if name in {{*sys.modules}} - before]"
    program = f"import sys; {own}; import hf_bam; {use}; print({found})"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


@pytest.mark.parametrize("program", [["hf-bam"], ["-m"]])
def test_the_help_of_the_command_imports_neither_torch_nor_transformers(program):
    code = f"import sys; sys.argv = {[*program, '--help']!r}; from hf_bam.cli import main; main()"
    code += "; print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    text = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert text.startswith("usage: hf-bam")
    assert text.rstrip().endswith("[]")


def test_the_commands_of_the_help_are_those_of_the_parser():
    assert tuple(commands()) == COMMANDS


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "plots", ("matplotlib", "no_such_package"))
    with pytest.raises(
        extras.MissingExtraError, match=r'no_such_package is not installed: pip install "hf_bam\[plots\]"'
    ):
        extras.check_extra("plots", "hf_bam.plots")
