"""DDP, Accelerate and FSDP2 with two processes give the result of one process; on gloo."""

from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from safetensors.torch import load_file

import hf_bam

from ..models import classification
from ..processes import launch
from .distributed_program import ALIGNMENTS, build, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    for processes in (1, 2):
        launch(processes, main, folder)
    return folder


def both(folder, name):
    return [load_file(folder / f"{name} {processes}.safetensors") for processes in (1, 2)]


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-6, atol=1e-9, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("model", ["bert", "albert"])
@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
@pytest.mark.parametrize("find_unused", [False, True])
def test_ddp_gives_the_gradient_of_one_process(folder, model, kl_weight, find_unused):
    one, two = both(folder, f"ddp {model} {kl_weight} {find_unused}")
    assert_same(one, two)
    prior = [gradient for name, gradient in one.items() if name.endswith("logit_weight")]
    assert prior
    assert all(bool(gradient.any()) == (kl_weight > 0) for gradient in prior)


@pytest.mark.parametrize("find_unused", [False, True])
def test_ddp_trains_the_kl_of_a_custom_loss(folder, find_unused):
    """The gradient is that of the loss of the model, which is the same cross entropy plus the KL."""
    for own in both(folder, f"custom loss {find_unused}"):
        assert_same(both(folder, f"ddp bert 0.5 {find_unused}")[0], own)


@pytest.mark.parametrize("model", ["bart", "bert", "recurrent"])
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_ddp_trains_latent_alignments(folder, model, name):
    """A parameter without a gradient raises in the second forward."""
    one, two = both(folder, f"alignment {model} {name}")
    if name in ("marginal", "variational"):
        assert_same(one, two)
    else:  # samples
        assert one.keys() == two.keys()
        assert all(torch.isfinite(gradient).all() for gradient in two.values())


def test_accelerate_gives_the_weights_of_one_process(folder):
    one, two = both(folder, "accelerate")
    assert_same(one, two)
    assert one["bam_step"] == 2
    fresh = build("bert", 0.5).state_dict()
    assert all(not torch.equal(one[name], fresh[name]) for name in one if name.endswith("logit_weight"))


def test_fsdp2_gives_the_weights_of_one_process(folder):
    one, two = both(folder, "fsdp")
    assert_same(one, two)
    assert one["bam_step"] == 2


def test_a_sharded_model_is_saved_unsharded(folder):
    batch = classification()
    one, two = (hf_bam.from_pretrained(folder / f"fsdp-{n}", dtype=torch.float64) for n in (1, 2))
    torch.testing.assert_close(two(**batch).logits, one(**batch).logits, rtol=1e-6, atol=1e-9)
    assert_same(one.state_dict(), two.state_dict())


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "deepspeed_zero2", "deepspeed_zero3"])
def test_accelerate_reads_the_configs_of_scripts(name):
    path = Path(__file__).parents[2] / "scripts" / "configs" / f"{name}.yaml"
    config = load_config_from_file(str(path))
    assert config.num_processes == 2
    assert config.distributed_type.value.lower() in ("multi_gpu", "fsdp", "deepspeed")
