import pytest
import torch

from hf_bam.training import Recipe
from hf_bam.training.optimization import (
    learning_rate_factor,
    make_optimizer,
    parameter_groups,
    set_learning_rate,
    warmup_steps,
)

from .cases import classifier


def test_groups():
    model = classifier()
    model.get_input_embeddings().requires_grad_(False)
    recipe = Recipe(learning_rate=1e-4, prior_learning_rate=1e-2, weight_decay=0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {}
    for group in parameter_groups(model, recipe):
        for parameter in group["params"]:
            found[names[id(parameter)]] = (group["lr"], group["weight_decay"])
    assert found.keys() == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for name, (lr, decay) in found.items():
        assert lr == (1e-2 if ".bam.prior." in name else 1e-4)
        assert decay == (0.0 if name.endswith("bias") or "LayerNorm" in name else 0.1)


def test_the_prior_has_the_same_learning_rate_by_default():
    assert {group["lr"] for group in parameter_groups(classifier(), Recipe(learning_rate=3e-4))} == {3e-4}


def test_adamw_is_fused():
    assert make_optimizer(classifier(), Recipe()).defaults["fused"]


def test_nothing_to_train():
    model = classifier().requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        parameter_groups(model, Recipe())


def test_linear_warmup_and_decay():
    factors = [learning_rate_factor(step, 4, 12) for step in range(12)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4:] == pytest.approx([1 - i / 8 for i in range(8)])
    assert learning_rate_factor(0, 0, 5) == 1.0
    assert learning_rate_factor(2, 3, 3) == 1.0


def test_a_constant_tail():
    factors = [learning_rate_factor(step, 4, 12, tail=3) for step in range(12)]
    assert factors[:9] == [learning_rate_factor(step, 4, 12) for step in range(9)]
    assert factors[9:] == [3 / 8] * 3
    assert [learning_rate_factor(step, 2, 4, tail=4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]


def test_warmup_is_a_number_or_a_fraction():
    assert warmup_steps(Recipe(warmup_steps=0.1), 55) == 6
    assert warmup_steps(Recipe(warmup_steps=200), 800) == 200
    assert warmup_steps(Recipe(warmup_steps=200), 10) == 10
    assert warmup_steps(Recipe(warmup_steps=0), 10) == 0


def test_each_group_has_its_own_peak():
    optimizer = make_optimizer(classifier(), Recipe(learning_rate=1e-4, prior_learning_rate=1e-2))
    set_learning_rate(optimizer, 0.5)
    set_learning_rate(optimizer, 0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.25e-4, 0.25e-2}
    assert isinstance(optimizer, torch.optim.AdamW)
