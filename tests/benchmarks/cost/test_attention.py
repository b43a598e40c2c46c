"""Attention alone: every kind that is measured computes gradients."""

import pytest

from benchmarks.cost.attention import LONGEST, attention_pass


@pytest.mark.parametrize("kind", LONGEST)
def test_a_pass_has_gradients(kind):
    run = attention_pass(kind, 8)
    run()
    leaves = [cell.cell_contents for cell in run.__closure__ if getattr(cell.cell_contents, "requires_grad", False)]
    assert len(leaves) >= 3
    assert all(leaf.grad.abs().sum() > 0 for leaf in leaves)
