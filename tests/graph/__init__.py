"""Tests of graph attention; skipped without torch_geometric."""

import pytest

pytest.importorskip("torch_geometric")
