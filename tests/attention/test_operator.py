"""The compiled kernel as a torch operator."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from hf_bam.attention.backends.distributions import decode, encode
from hf_bam.attention.backends.operator import _flat, _spec, attend_natively
from hf_bam.attention.backends.spec import Spec
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Lognormal, Weibull
from hf_bam.priors import Gamma, LognormalPrior

from .cases import MASKS, PATHS, B, D, H, S, T

pytestmark = [
    pytest.mark.skipif("native" not in PATHS, reason="the kernel was not built"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # torch's own checks
]

PAIRS = {
    "weibull": (Weibull(1.5), Gamma(10.0)),
    "alpha": (Weibull(2.0), Gamma(3.0, 0.7, "psi")),
    "lognormal": (Lognormal(0.3), LognormalPrior(0.5)),
}


def arguments(pair="weibull", mask=None, kl=True, received=False, dtype=torch.float32, **options):
    """Arguments of the operator for random tensors."""
    torch.manual_seed(0)
    tensors = [torch.randn(B, H, n, D, dtype=dtype, requires_grad=True) for n in (T, S, S)]
    logits = torch.randn(B, H, S, requires_grad=True) if kl else None
    posterior, prior = PAIRS[pair]
    spec = Spec(
        posterior,
        0.6,
        NoiseSeed(torch.tensor(5)),
        AttentionMask((B, H, T, S), **(mask or {})),
        query_mask=torch.ones(B, T) if received else None,
        prior=prior if kl else None,
        **options,
    )
    return *tensors, logits, *_flat(spec)


@pytest.mark.parametrize(
    "case",
    [
        {"mask": MASKS["additive"], "dropout": 0.2},
        {"pair": "lognormal", "mask": MASKS["causal"], "dtype": torch.bfloat16},
        {"pair": "alpha", "kl": False, "received": True, "noise": torch.randn(B, H, 1, S)},
    ],
    ids=lambda case: case.get("pair", "weibull"),
)
def test_torch_checks_the_operator(case):
    """Schema, fake implementation, registration of autograd, and agreement of traced code with eager code."""
    torch.library.opcheck(torch.ops.hf_bam.attend.default, arguments(**case), atol=1e-6, rtol=1e-5)


def test_torch_checks_the_backward_operator():
    query, key, value, logits, *flat = (x.detach() if torch.is_tensor(x) else x for x in arguments())
    output, kl, _, *sums = torch.ops.hf_bam.attend(query, key, value, logits, *flat)
    inputs = (query, key, value, logits, *sums, torch.ones_like(output), torch.ones_like(kl), None)
    torch.library.opcheck(torch.ops.hf_bam.attend_backward.default, (*inputs, *flat), atol=1e-6, rtol=1e-5)


def test_vmap_is_a_call_for_each_entry():
    query, *rest = (x.detach() if torch.is_tensor(x) else x for x in arguments(kl=False))
    before, after = rest[:7], rest[8:]  # of the seed
    queries, seeds = torch.stack([query, query, 2 * query]), torch.tensor([3, 4, 3])

    def call(one, seed):
        return torch.ops.hf_bam.attend(one, *before, seed, *after)[0]

    outputs = torch.vmap(call)(queries, seeds)
    for output, one, seed in zip(outputs, queries, seeds, strict=True):
        assert torch.equal(output, call(one, seed))
    assert not torch.allclose(outputs[0], outputs[1])


@pytest.mark.parametrize("mask", [None, MASKS["additive"]], ids=["no mask", "bias"])
def test_without_gradients_the_result_is_the_same(mask):
    query, key, value, logits, *flat = arguments(mask=mask)
    spec = _spec(query, key, tuple(flat))
    found = attend_natively(query, key, value, logits, spec)
    with torch.no_grad():
        direct = attend_natively(query, key, value, logits, spec)
    for with_gradient, without in zip(found[:2], direct[:2], strict=True):
        assert with_gradient.requires_grad
        assert not without.requires_grad
        assert torch.equal(with_gradient, without)


@torch.no_grad()
def test_tracers_and_transforms_see_the_operator():
    query, key, value, _, *flat = (x.detach() if torch.is_tensor(x) else x for x in arguments(kl=False))
    spec = _spec(query, key, tuple(flat))

    def call(one):
        return attend_natively(one, key, value, None, spec).output

    nodes = [str(node.target) for node in make_fx(call)(query).graph.nodes]
    assert "hf_bam.attend.default" in nodes
    assert torch.equal(torch.vmap(call)(torch.stack([query, 2 * query]))[1], call(2 * query))


@pytest.mark.parametrize("pair", PAIRS)
def test_distributions_survive_as_numbers(pair):
    assert decode(*encode(*PAIRS[pair])) == PAIRS[pair]
    assert decode(*encode(PAIRS[pair][0], None)) == (PAIRS[pair][0], None)
