"""Accelerate's own FSDP2 on two CPU processes: weights, KL and a resumed step are those of one process."""

import pytest
import torch
from safetensors.torch import load_file

import hf_bam

from ..models import classification
from ..processes import launch
from .engines_program import main


@pytest.mark.slow
def test_fsdp2(tmp_path):
    for processes, engine in ((1, "plain"), (2, "fsdp2")):
        launch(processes, main, engine, tmp_path)
    plain, sharded = (load_file(tmp_path / f"{engine}.safetensors") for engine in ("plain", "fsdp2"))
    assert plain["kl"].isfinite().all()
    assert plain["kl"][0] > 0
    for found in (plain, sharded):
        assert torch.equal(found["again"], found["kl"][1:])  # the step after the checkpoint, again
    torch.testing.assert_close(sharded["kl"], plain["kl"])
    models = [hf_bam.from_pretrained(tmp_path / engine) for engine in ("plain", "fsdp2")]
    one, other = (model.state_dict() for model in models)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    torch.testing.assert_close(models[1](**classification()).logits, models[0](**classification()).logits)
