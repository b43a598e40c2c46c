"""Program of test_engines.py: Accelerate's own engines on two CPU processes, and the same on one.

Trains two steps, saves the state of Accelerate, resumes from it, and saves the model.
"""

import copy

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DeepSpeedPlugin, DistributedType, FullyShardedDataParallelPlugin
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

import hf_bam
from tests.models import bert

from .distributed_program import data, share


def accelerator(engine):
    if engine == "fsdp2":
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=["BertLayer"],
            reshard_after_forward=True,
            state_dict_type="SHARDED_STATE_DICT",
        )
        made = Accelerator(cpu=True, fsdp_plugin=plugin)
        if made.num_processes > 1:  # on a CPU Accelerate ignores the plugin, unless it is told that this is FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            made.state.distributed_type, made.state.fsdp_plugin = DistributedType.FSDP, plugin
        return made
    if engine == "zero2":
        plugin = DeepSpeedPlugin(zero_stage=2, gradient_accumulation_steps=1, gradient_clipping=1.0)
        plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = 4
        return Accelerator(deepspeed_plugin=plugin, mixed_precision="no")
    return Accelerator(cpu=True)


def prepared(engine, folder):
    state = accelerator(engine)
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


def main(engine, folder):
    state, model, optimizer = prepared(engine, folder)
    kl = steps(state, model, optimizer)
    saved = checkpoint(state, model, optimizer, folder / f"{engine} state")
    kl += steps(state, model, optimizer)
    restore(state, model, optimizer, saved)
    again = steps(state, model, optimizer)
    bare, weights = state.unwrap_model(model), state.get_state_dict(model)
    bare.save_pretrained(folder / engine, state_dict=weights, is_main_process=state.is_main_process)
    if state.is_main_process:
        save_file({"kl": torch.tensor(kl), "again": torch.tensor(again)}, folder / f"{engine}.safetensors")
    print(engine, state.distributed_type, state.num_processes, kl, again, flush=True)
    state.end_training()
