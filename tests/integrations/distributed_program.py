"""Program of test_distributed.py, run with one process and with two: writes gradients and weights of each method.

With vanishing noise the KL is not random, so that one process and two agree.
"""

import torch
from accelerate import Accelerator, PartialState
from safetensors.torch import save_file
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import hf_bam
from tests.models import albert, bart, bert, classification, recurrent, translation

LENGTHS, WIDTH = (7, 5, 3, 6, 2, 7, 4, 4), 7


def build(name, kl_weight):
    torch.manual_seed(0)
    model = {"albert": albert, "bert": bert}[name]().double()
    return hf_bam.patch(model, k=1e8, beta=1.0, kl_weight=kl_weight).train()


def data():
    torch.manual_seed(1)
    return classification(LENGTHS, WIDTH)


def share(batch, state):
    """Return the rows of this process."""
    rows = slice(state.process_index, None, state.num_processes)
    return {name: tensor[rows].contiguous() for name, tensor in batch.items()}


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gradients(model):
    return {name: whole(p.grad) for name, p in model.named_parameters() if p.grad is not None}


def custom_loss(model, batch):
    """Return a loss that does not use `out.loss` and so has no KL."""
    return cross_entropy(model(**batch).logits, batch["labels"])


def ddp(state, name, kl_weight, find_unused, loss=lambda model, batch: model(**batch).loss):
    model = build(name, kl_weight)
    wrapped = DistributedDataParallel(model, find_unused_parameters=find_unused) if state.use_distributed else model
    for _ in range(2):  # an unused parameter raises in the second forward
        model.zero_grad()
        loss(wrapped, share(data(), state)).backward()
    return gradients(model)


ALIGNMENTS = {
    "marginal": {"objective": "marginal"},
    "variational": {"objective": "variational", "d_inference": 8},
    "score": {"objective": "variational", "d_inference": 8, "estimator": "score"},
    "gumbel": {"family": "gumbel", "d_inference": 8},
    "dirichlet": {"family": "dirichlet", "d_inference": 8},
}


def aligned(state, build, settings):
    """Return the gradients of a latent alignment; targets of one length make the mean of two processes exact."""
    torch.manual_seed(0)
    model = hf_bam.patch(build().double(), **{"family": "categorical", **settings}).train()
    torch.manual_seed(1)
    batch = classification((7, 5, 3, 6), 7) if build is bert else translation((6, 6, 6, 6), 6)
    wrapped = DistributedDataParallel(model) if state.use_distributed else model
    for _ in range(2):
        model.zero_grad()
        wrapped(**share(batch, state)).loss.backward()
    return gradients(model)


def accelerated(state):
    model = build("bert", 0.5)
    rows = [dict(zip(data(), values, strict=True)) for values in zip(*data().values(), strict=True)]
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(rows, batch_size=4 // state.num_processes)
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(prepared):
                accelerator.backward(prepared(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
    return dict(model.state_dict())


def fsdp(state, folder):
    model = build("bert", 0.5)
    if state.use_distributed:
        mesh = init_device_mesh("cpu", (state.num_processes,))
        for layer in model.bert.encoder.layer:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(**share(data(), state)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    model.save_pretrained(folder, state_dict=full, is_main_process=state.is_main_process)
    return {name: whole(tensor) for name, tensor in model.state_dict().items()}


def main(folder):
    state = PartialState(cpu=True)
    results = {
        f"ddp {name} {kl_weight} {find_unused}": ddp(state, name, kl_weight, find_unused)
        for name in ("bert", "albert")
        for kl_weight in (0.0, 0.5)
        for find_unused in (False, True)
    }
    results |= {f"custom loss {unused}": ddp(state, "bert", 0.5, unused, custom_loss) for unused in (False, True)}
    results |= {
        f"alignment {build.__name__} {name}": aligned(state, build, settings)
        for build in (bart, bert, recurrent)
        for name, settings in ALIGNMENTS.items()
    }
    results["accelerate"] = accelerated(state)
    results["fsdp"] = fsdp(state, folder / f"fsdp-{state.num_processes}")
    if state.is_main_process:
        for name, tensors in results.items():
            tensors = {key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}
            save_file(tensors, folder / f"{name} {state.num_processes}.safetensors")
    if state.use_distributed:
        distributed.barrier()
        distributed.destroy_process_group()
