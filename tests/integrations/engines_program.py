"""Program of test_engines.py: Accelerate's own engines on two CPU processes, and the same on one.

Trains two steps, saves the state of Accelerate, resumes from it, and saves the model. `accelerate launch` starts it
with a config of scripts/configs; its arguments are the name of the engine and a folder.
"""

import copy
import sys
from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

import hf_bam
from tests.models import bert

from ..reliability.leaks import tensors
from .distributed_program import data, share


def connect(engine):
    """Connect the processes by gloo, which Accelerate chooses neither for DeepSpeed nor for FSDP."""
    if engine == "fsdp2":  # on a CPU Accelerate ignores its plugin, unless it is told that these are GPUs
        PartialState(cpu=True)
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    elif engine == "zero2":
        PartialState(backend="gloo")


def prepared(engine):
    connect(engine)
    state = Accelerator(cpu=engine == "plain")
    if engine == "zero2":
        state.deepspeed_plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = 4
    torch.manual_seed(0)
    model = hf_bam.patch(bert(), k=1e8, beta=1.0, kl_weight=0.5).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return state, *state.prepare(model, optimizer)


def steps(state, model, optimizer):
    """Make one step and return the KL before it, in a list."""
    out = model(**share(data(), state))
    state.backward(out.loss)
    if state.distributed_type != DistributedType.DEEPSPEED:  # its engine clips
        state.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return [state.gather(out.kl.detach().reshape(1)).mean().item()]


def checkpoint(state, model, optimizer, folder):
    """Save weights and optimizer: with Accelerate, or with torch where tensors are sharded."""
    if not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        state.save_state(str(folder))
        return folder
    options = StateDictOptions(full_state_dict=True)
    return copy.deepcopy(get_state_dict(model, optimizer.optimizer, options=options))


def restore(state, model, optimizer, saved):
    if not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        state.load_state(str(saved))
        return
    weights, moments = saved
    options = StateDictOptions(full_state_dict=True)
    found = {"model_state_dict": weights, "optim_state_dict": moments}
    set_state_dict(model, optimizer.optimizer, **found, options=options)


def grown(*prepared):
    """Return by how many tensors this process grows in further steps."""
    steps(*prepared)
    before = tensors()
    for _ in range(3):
        steps(*prepared)
    return tensors() - before


def main(engine, folder):
    state, model, optimizer = prepared(engine)
    kl = steps(state, model, optimizer)
    saved = checkpoint(state, model, optimizer, folder / f"{engine} state")
    kl += steps(state, model, optimizer)
    restore(state, model, optimizer, saved)
    again = steps(state, model, optimizer)
    bare, weights = state.unwrap_model(model), state.get_state_dict(model)
    bare.save_pretrained(folder / engine, state_dict=weights, is_main_process=state.is_main_process)
    if state.is_main_process:
        save_file({"kl": torch.tensor(kl), "again": torch.tensor(again)}, folder / f"{engine}.safetensors")
        (folder / f"{engine}.txt").write_text(f"{state.distributed_type.value} {state.num_processes}")
    assert grown(state, model, optimizer) == 0
    state.end_training()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
