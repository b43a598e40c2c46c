"""FSDP2 and DeepSpeed ZeRO-2 with the configs of scripts on two CPU processes.

Weights, KL and a resumed step are those of one process.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import hf_bam

from ..models import classification
from ..processes import free_port, launch
from .engines_program import main

ROOT = Path(__file__).parents[2]
CONFIGS = {"fsdp2": ("fsdp2", "FSDP 2"), "zero2": ("deepspeed_zero2", "DEEPSPEED 2")}
"""Config of each engine, and what Accelerate says of its processes."""
DEEPSPEED = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed and a C++ compiler")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A folder with the results of one process."""
    folder = tmp_path_factory.mktemp("plain")
    launch(1, main, "plain", folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fsdp2", pytest.param("zero2", marks=DEEPSPEED)])
def test_engine(engine, plain, tmp_path):
    config, found = CONFIGS[engine]
    command = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", str(free_port())]
    command += ["--config_file", str(ROOT / f"scripts/configs/{config}.yaml"), "--mixed_precision", "no"]
    command += ["-m", "tests.integrations.engines_program", engine, str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{engine}.txt").read_text() == found

    one, other = load_file(plain / "plain.safetensors"), load_file(tmp_path / f"{engine}.safetensors")
    assert one["kl"].isfinite().all()
    assert one["kl"][0] > 0
    for values in (one, other):
        assert torch.equal(values["again"], values["kl"][1:])  # the step after the checkpoint, again
    torch.testing.assert_close(other["kl"], one["kl"])
    models = [hf_bam.from_pretrained(place) for place in (plain / "plain", tmp_path / engine)]
    first, second = (model.state_dict() for model in models)
    assert first.keys() == second.keys()
    assert second.pop("bam_step") == (0 if engine == "zero2" else first["bam_step"])  # DeepSpeed has own tensors
    for name, tensor in second.items():
        if not name.endswith("key.bias"):  # their gradient is 0, so that AdamW follows rounding errors
            torch.testing.assert_close(tensor, first[name], rtol=1e-4, atol=1e-5, msg=name)
    batch = classification()
    torch.testing.assert_close(models[1](**batch).logits, models[0](**batch).logits, rtol=1e-3, atol=1e-4)
