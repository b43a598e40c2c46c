"""Tests of the quicktour notebook: it runs, and its stored outputs are up to date.

python -m tests.test_notebook    # run it and store its outputs
"""

import os
import re
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "quicktour.ipynb"
NUMBER = re.compile(r"\d+\.\d+")
SETTINGS = {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}  # tqdm asks for widgets


def executed(folder):
    """Run the notebook in a folder with the current Python and return it with its new outputs."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    metadata = notebook.metadata.copy()
    options = {"timeout": 120, "record_timing": False, "coalesce_streams": True}
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options)
    # Without kernel folders there is one kernel only, that of the current Python.
    client.create_kernel_manager().kernel_spec_manager = KernelSpecManager(kernel_dirs=[])
    client.execute(env={**os.environ, **SETTINGS})
    notebook.metadata = metadata
    return notebook


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def printed(notebook):
    """Return the text that the cells print, and check that they write to stdout only."""
    streams = [output for output in outputs(notebook) if output.output_type == "stream"]
    assert {stream.name for stream in streams} == {"stdout"}
    return "".join(stream.text for stream in streams)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    return executed(tmp_path_factory.mktemp("notebook"))


@pytest.mark.slow
def test_stored_outputs_are_up_to_date(notebook):
    stored = nbformat.read(NOTEBOOK, as_version=4)
    assert NUMBER.sub("#", printed(notebook)) == NUMBER.sub("#", printed(stored))
    assert [o.output_type for o in outputs(notebook)] == [o.output_type for o in outputs(stored)]
    assert "/" not in printed(stored)  # no path of a machine


@pytest.mark.slow
def test_clear_sentences_have_a_small_spread_and_mixed_ones_a_large_one(notebook):
    lines = re.findall(r"(\w+) +(0\.\d+|1\.00) ± (0\.\d+)  (.+)", printed(notebook))
    labels = {text: label for label, _, _, text in lines}
    spreads = {text: float(std) for _, _, std, text in lines}
    clear = {"A cheerful place with excellent food.": "praise", "The worst evening of the year.": "complaint"}
    mixed = ("Delicious food, terrible service.", "Lovely garden, but the fish was awful.", "So bad that it is good.")
    assert clear.items() <= labels.items()
    assert max(spreads[text] for text in clear) < 0.1 < max(spreads[text] for text in mixed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(executed(folder), NOTEBOOK)
