"""Families of each stage: the tensor that they get, the terms that they add, and what stays as it was."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import hf_bam
from hf_bam.attention.backends import BACKENDS, backend_for
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime
from hf_bam.families import FAMILIES, STAGES, Family
from hf_bam.fields import setting
from hf_bam.objective import KL, LossTerm

from ..models import bert, classification, marian, translation


@dataclass
class MeanTerm(LossTerm):
    """Mean of a tensor times a factor, plus the number of labels and the mean logit."""

    name = "extra"
    tensor: Tensor
    factor: float

    def reduce(self, reduction: str, labels: Tensor | None, output: Any) -> Tensor:
        number = 0 if labels is None else labels.numel()
        return self.factor * self.tensor.mean() + number + output.logits.detach().mean()


class Scale(nn.Module):
    """One trained factor per feature of a head."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(size))


@dataclass(frozen=True)
class Shift(Family):
    """Uniform noise of some width on the tensor of a stage, a trained factor, and a term that is no KL."""

    width: float = setting(0.5, least=0)
    weight: float = setting(1.0, least=0)
    calls: ClassVar[list[Any]] = []

    def modules(self, head_dim: int) -> dict[str, nn.Module]:
        return {"scale": Scale(head_dim)}

    def sample(self, tensor: Any, call: Any) -> Any:
        self.calls.append(tensor)
        first = tensor[0] if isinstance(tensor, tuple) else tensor
        mask = call.mask.rows(slice(0, call.query.shape[2]), call.query.device)
        noise = self.width * (call.uniform(first.shape[-1], per_query=self.stage != "memory") - 0.5)
        if self.stage == "memory":
            return tensor[0], tensor[1] * call.layer.scale.factor + noise
        noise = noise * call.layer.scale.factor.mean()
        return tensor + (noise if self.stage == "output" else noise.masked_fill(~mask, 0.0))

    def terms(self, tensor: Any, call: Any) -> Iterator[LossTerm]:
        yield MeanTerm(call.layer.scale.factor, self.weight)


@pytest.fixture(params=STAGES)
def family(request, monkeypatch):
    cls = type(f"{request.param.title()}Shift", (Shift,), {"stage": request.param, "calls": []})
    monkeypatch.setitem(FAMILIES, "shift", cls)
    return cls


SHAPES = {
    "memory": ((3, 4, 7, 8), (3, 4, 7, 8)),
    "scores": (3, 4, 7, 7),
    "weights": (3, 4, 7, 7),
    "output": (3, 4, 7, 8),
}


def shape_of(tensor):
    return tuple(tuple(x.shape) for x in tensor) if isinstance(tensor, tuple) else tuple(tensor.shape)


def test_a_family_gets_the_tensor_of_its_stage(family):
    model = hf_bam.patch(bert(), family="shift").train()
    model(**classification())
    assert [shape_of(tensor) for tensor in family.calls] == [SHAPES[family.stage]] * 2
    if family.stage == "weights":
        torch.testing.assert_close(family.calls[0].sum(-1), torch.ones(3, 4, 7))
        assert (family.calls[0][2, :, :, 3:] == 0).all()


def test_mean_mode_is_the_plain_model_and_vanishing_noise_too(family):
    model, batch = bert().eval(), classification()
    expected = model(**batch).logits
    hf_bam.patch(model, family="shift", width=0.0)
    torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=0)
    assert not family.calls
    with hf_bam.sampling(model, seed=0):
        torch.testing.assert_close(model(**batch).logits, expected, atol=1e-6, rtol=0)
    assert family.calls


def test_samples_follow_the_seed(family):
    model, batch = hf_bam.patch(bert(), family="shift", width=1.0).eval(), classification()
    found = []
    for seed in (1, 1, 2):
        with torch.no_grad(), hf_bam.sampling(model, seed=seed):
            found.append(model(**batch).logits)
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


def test_terms_reach_the_loss_with_labels_and_output(family):
    model, batch = hf_bam.patch(bert(), family="shift", weight=2.0).train(), classification()
    output = model(**batch)
    expected = 2.0 + 3 + output.logits.mean().item()  # two calls, of which the mean is taken
    assert output.kl.item() == 0
    assert output.kl_loss.item() == pytest.approx(expected, rel=1e-6)
    assert output.loss.item() == pytest.approx((output.task_loss + output.kl_loss).item(), rel=1e-6)
    output.kl_loss.backward()
    for module in model.modules():
        if isinstance(module, BamLayer):
            torch.testing.assert_close(module.scale.factor.grad, torch.full((8,), 2.0 / 8 / 2))


def test_other_terms_stand_beside_the_kl_under_their_own_name(monkeypatch):
    """A family with a KL and a second term: only the KL has `kl_weight`."""

    class Both(FAMILIES["weibull"]):
        def terms(self, tensor, call):
            yield from super().terms(tensor, call)
            yield MeanTerm(call.layer.prior.logit_weight, 0.0)

    monkeypatch.setitem(FAMILIES, "both", Both)
    model, batch = hf_bam.patch(bert(), family="both", kl_weight=0.5).train(), classification()
    output = model(**batch)  # by the matrix: fused backends compute the terms of BAM alone
    assert output.kl.item() > 0
    assert (output.kl_loss - 0.5 * output.kl).item() == pytest.approx(3 + output.logits.mean().item(), rel=1e-4)
    output.loss.backward()
    means = model._bam.runtime.meter.pop()
    assert {KL, "extra", "kl_loss", "task_loss"} == means.keys()


def test_networks_are_saved_loaded_and_removed(family, tmp_path):
    model, batch = hf_bam.patch(bert(), family="shift").eval(), classification()
    for name, parameter in model.named_parameters():
        if ".bam." in name:
            torch.nn.init.normal_(parameter)
    names = [name for name in model.state_dict() if ".bam.scale.factor" in name]
    assert len(names) == 2
    model.save_pretrained(tmp_path)
    other = hf_bam.from_pretrained(tmp_path)
    assert hf_bam.get_config(other) == hf_bam.get_config(model)
    with torch.no_grad(), hf_bam.sampling(model, seed=1), hf_bam.sampling(other, seed=1):
        assert torch.equal(model(**batch).logits, other(**batch).logits)
    assert not any(".bam." in name for name in hf_bam.unpatch(model).state_dict())


def test_encoder_decoder_and_cross_attention(family):
    model = hf_bam.patch(marian(), family="shift", attention="cross").train()
    model(**translation()).loss.backward()
    assert len(family.calls) == 2
    assert {shape_of(tensor)[-2] if family.stage != "memory" else None for tensor in family.calls} <= {6, None}


@dataclass(frozen=True)
class _Call:
    """Arguments for calls of a Weibull layer."""

    options: dict[str, Any]

    def build(self) -> AttentionCall:
        layer = BamLayer(FAMILIES["weibull"](), Runtime(), head_dim=4)
        tensors = torch.randn(3, 1, 2, 5, 4).to(self.options.pop("dtype", torch.float32))
        mask = self.options.pop("mask", AttentionMask((1, 2, 5, 5)))
        return AttentionCall(self.options.pop("layer", layer), 0, *tensors, mask, scale=0.5, **self.options)


BIAS = torch.zeros(1, 1, 5, 5, requires_grad=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "native"),
        ({"dtype": torch.float64}, "blocks"),
        ({"wants_weights": True}, "blocks"),
        ({"softcap": 3.0}, "blocks"),
        ({"mask": AttentionMask((1, 2, 5, 5), BIAS > -1, bias=BIAS.detach())}, "native"),
        ({"mask": AttentionMask((1, 2, 5, 5), BIAS > -1, bias=BIAS)}, "blocks"),
        ({"layer": None}, "matrix"),
    ],
    ids=["plain", "float64", "weights", "softcap", "bias", "learned bias", "mean mode"],
)
def test_a_call_goes_to_the_first_backend_that_supports_it(options, expected):
    if expected == "native" and not hf_bam.attention.backends.available():
        expected = "blocks"
    assert backend_for(_Call(dict(options)).build()) is BACKENDS[expected]


def test_a_prior_that_the_kernel_does_not_know_goes_to_blocks():
    layer = BamLayer(FAMILIES["lognormal"](prior_location="median"), Runtime(), head_dim=4)
    call = _Call({"layer": layer}).build()
    assert backend_for(call) is BACKENDS["blocks"]


def test_a_family_of_another_stage_goes_to_the_matrix(family):
    if family.stage == "scores":
        return
    call = _Call({"layer": BamLayer(family(), Runtime(), head_dim=4)}).build()
    assert backend_for(call) is BACKENDS["matrix"]
