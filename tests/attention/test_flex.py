"""FlexAttention on a CPU, where it runs without its fused kernel, against matrices with the same noise.

torch raises for gradients there; without that check its backward pass runs as well.
"""

import pytest
import torch

from hf_bam.attention.backends import BACKENDS
from hf_bam.attention.backends.flex import attend_by_flex
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.mask import AttentionMask

from .cases import FAMILIES, MASKS, SCALE, Case
from .test_agreement import assert_agrees, assert_same

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # torch, while it traces
]


@pytest.fixture(autouse=True)
def gradients_on_a_cpu(monkeypatch):
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *tensors: None)


@pytest.mark.parametrize(
    ("family", "noise", "mask"),
    [
        ("weibull", "entry", "causal"),
        ("lognormal", "entry", "padding"),
        ("alpha", "entry", "holes and an empty row"),
        ("weibull", "key", "causal and padding"),
    ],
)
def test_outputs_kl_and_gradients(family, noise, mask):
    assert_agrees(Case({"noise": noise, **FAMILIES[family]}, MASKS[mask], compute=attend_by_flex), tolerance=5e-5)


def test_capped_scores_a_bias_and_groups_of_heads():
    """By name, with more than one block of 128 keys; heads 0 and 1 share their keys, and so do 2 and 3."""
    torch.manual_seed(0)
    layer = Case({"k": 1.5, "prior": "none"}).layer
    query, key, value = (torch.randn(2, heads, 150, 16) for heads in (4, 2, 2))
    key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))
    mask = AttentionMask((2, 4, 150, 150), causal=True, bias=torch.randn(1, 4, 150, 150))
    call = AttentionCall(layer, 0, query, key, value, mask, SCALE, softcap=2.0, groups=2)
    assert BACKENDS["flex"].takes(call)
    assert not BACKENDS["flex"].supports(call)  # on a CPU it is not chosen
    outputs = []
    for name in ("flex", "matrix"):
        torch.manual_seed(1)
        outputs.append(BACKENDS[name].run(call)[0])
    assert_same(*outputs)
