"""Actions that wait for the import of a module."""

import importlib
import sys

import pytest

from hf_bam.integrations.imports import when_imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name of a module that nobody has imported, whose loading leaves a mark."""
    (tmp_path / "awaited_module.py").write_text("loaded = 1")
    monkeypatch.syspath_prepend(tmp_path)
    yield "awaited_module"
    sys.modules.pop("awaited_module", None)


def test_the_action_runs_once_after_the_module(module):
    seen = []
    when_imported(module, lambda: seen.append(sys.modules[module].loaded))
    assert not seen
    loaded = importlib.import_module(module)
    assert seen == [1]
    assert type(loaded.__loader__).__name__ == "SourceFileLoader"
    importlib.reload(loaded)
    assert seen == [1]


def test_the_action_runs_at_once_if_the_module_is_there():
    seen = []
    when_imported("sys", lambda: seen.append(1))
    assert seen == [1]


def test_two_requests_wait_as_one(module):
    seen, finders = [], len(sys.meta_path)
    for _ in range(2):
        when_imported(module, lambda: seen.append(1))
    assert len(sys.meta_path) == finders + 1
    importlib.import_module(module)
    assert seen == [1]
    assert len(sys.meta_path) == finders
