"""Attention alone: every kind computes the gradients of the tensors that it uses."""

import pytest

from benchmarks.cost import attention


@pytest.mark.parametrize("kind", attention.LONGEST)
def test_a_pass_has_gradients(kind, monkeypatch):
    tensors = attention.inputs(8)
    monkeypatch.setattr(attention, "inputs", lambda tokens: tensors)
    attention.attention_pass(kind, 8)()
    *projections, log_psi = tensors
    assert all(tensor.grad.abs().sum() > 0 for tensor in projections)
    assert (log_psi.grad is None) == kind.startswith("plain")
