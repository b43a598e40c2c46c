"""FlexAttention on a CPU, where it runs without its fused kernel, against matrices with the same noise.

torch raises for gradients there; without that check its backward pass runs as well.
"""

import pytest

from hf_bam.attention.backends.flex import attend_by_flex

from .cases import FAMILIES, MASKS, Case
from .test_agreement import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


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
