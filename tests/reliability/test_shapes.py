"""Whatever shapes reach the kernel, it reads only its own memory: odd ones agree with torch, wrong ones raise."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import hf_bam
from hf_bam.attention.backends import attend
from hf_bam.attention.backends.operator import attend_natively
from hf_bam.attention.backends.spec import Spec
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull

from ..attention.cases import PATHS, choose
from ..attention.test_forward import Attention
from ..models import language_model, llama

VANISHING = Weibull(1e7)
SHAPES = {
    "empty batch": (0, 2, 3, 4),
    "no heads": (2, 0, 3, 4),
    "no queries": (2, 2, 0, 4),
    "no keys": (2, 2, 3, 0),
    "nothing": (0, 0, 0, 0),
    "one": (1, 1, 1, 1),
}


def tensors(batch, heads, queries, keys, width=8, value_width=5):
    shapes = ((queries, width), (keys, width), (keys, value_width))
    return [torch.randn(batch, heads, *shape, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", SHAPES)
def test_empty_dimensions_give_what_torch_gives(monkeypatch, path, name):
    query, key, value = tensors(*SHAPES[name])
    if path == "portable":
        choose(monkeypatch, path)
    done = attend(
        query, key, value, posterior=VANISHING, seed=NoiseSeed(0), scale=1.0, mask=AttentionMask(SHAPES[name])
    )
    expected = scaled_dot_product_attention(query, key, value, scale=1.0).transpose(1, 2)
    torch.testing.assert_close(done.output, expected)
    for actual, wanted in zip(
        torch.autograd.grad(done.output.sum(), (query, key, value)),
        torch.autograd.grad(expected.sum(), (query, key, value)),
        strict=True,
    ):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("noise", ["entry", "key", "token"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("weights", [False, True], ids=["blocks", "matrix"])
def test_a_layer_trains_on_empty_dimensions(noise, name, weights):
    batch, heads, queries, keys = SHAPES[name]
    query, key, value = tensors(batch, heads, queries, keys)
    module = Attention(k=2.0, noise=noise).train()
    output, _ = module(query, key, value, output_attentions=weights)
    assert output.shape == (batch, queries, heads, 5)
    (term,) = module.frame.terms
    assert term.reduce("mean").isfinite()
    (output.sum() + term.reduce("sum")).backward()
    assert all(x.grad is None or x.grad.isfinite().all() for x in (query, key, value))


WRONG = {
    "keys and values of different lengths": lambda q, k, v: (q, k, v[:, :, :-1]),
    "heads that do not divide": lambda q, k, v: (q, k[:, :2], v[:, :2]),
    "another batch": lambda q, k, v: (q[:1], k, v),
    "another width": lambda q, k, v: (q, k[..., :-1], v),
    "another width, the other way": lambda q, k, v: (q[..., :-1], k, v),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("noise", ["entry", "key"])
def test_shapes_that_do_not_fit_are_errors(case, noise):
    query, key, value = WRONG[case](*tensors(2, 3, 5, 7))
    module = Attention(k=2.0, noise=noise).train()
    with pytest.raises(ValueError, match=r"cannot share 2 heads|the call has query \(\d, \d, \d, \d\)"):
        module(query, key, value)


@pytest.mark.parametrize("mask", [torch.ones(2, 1, 5, 6), torch.ones(3, 1, 5, 7), torch.ones(2, 1, 4, 7)], ids=str)
def test_masks_that_do_not_fit_are_errors(mask):
    module = Attention(k=2.0).train()
    with pytest.raises((RuntimeError, ValueError)):
        module(*tensors(2, 3, 5, 7), mask.bool())


def test_the_kernel_checks_what_it_is_given():
    query, key, value = tensors(2, 3, 5, 7)
    mask = AttentionMask((2, 3, 5, 7))
    good = {"posterior": VANISHING, "scale": 1.0, "seed": NoiseSeed(0), "mask": mask}
    for name, bad in {
        "row_seeds": {"seed": NoiseSeed(0, rows=torch.zeros(3, dtype=torch.int64))},
        "first_query": {"seed": NoiseSeed(0, first_query=torch.zeros(1, dtype=torch.int64))},
        "noise": {"noise": torch.zeros(2, 3, 1, 6)},
        "query_mask": {"query_mask": torch.ones(2, 4)},
    }.items():
        with pytest.raises(ValueError, match=name):
            attend_natively(query, key, value, None, Spec(**{**good, **bad}))
    with pytest.raises(ValueError, match="logits"):
        attend_natively(query, key, value, torch.zeros(2, 3, 8), Spec(**good))
    with pytest.raises(ValueError, match="value has shape"):
        attend_natively(query, key[:, :, :6], value, None, Spec(**good))


def test_a_config_with_heads_that_do_not_divide_is_an_error():
    model = hf_bam.patch(llama(hidden_size=48, num_attention_heads=6, num_key_value_heads=4)).train()
    with pytest.raises(ValueError, match="num_attention_heads has to be a multiple of num_key_value_heads"):
        model(**language_model())


@pytest.mark.parametrize("seed", range(20))
def test_strides_of_any_kind(seed):
    """Views, slices, expanded and transposed tensors against copies of them."""
    torch.manual_seed(seed)
    batch, heads, queries, keys, width = (int(torch.randint(1, high, ())) for high in (4, 4, 40, 40, 20))

    def odd(rows):
        big = torch.randn(batch, rows + 3, heads, 2, width + 1)
        return [big[:, 2:-1, :, 0, 1:].transpose(1, 2), big[:, 1:-2, :, 1, :-1].transpose(1, 2).flip(3)][seed % 2]

    inputs = odd(queries), odd(keys), odd(keys)[:, :1].expand(-1, heads, -1, -1)
    allowed = torch.rand(batch, keys, 1, queries).transpose(1, 3) > 0.3  # (B, T, 1, S)
    allowed = allowed.transpose(1, 2)
    options = {"posterior": Weibull(1.0), "seed": NoiseSeed(seed), "scale": 0.3}
    mask = AttentionMask((batch, heads, queries, keys), allowed)
    output = attend(*inputs, mask=mask, **options).output
    copied = attend(
        *(x.contiguous() for x in inputs), mask=AttentionMask(mask.shape, allowed.contiguous()), **options
    ).output
    assert torch.equal(output, copied)
