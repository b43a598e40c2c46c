"""Program of test_quantized.py with two processes: each trains a codebook alone and then with the other one.

It writes the buffers of both codebooks.
"""

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import hf_bam
from tests.models import marian, translation


def trained(first, step):
    """Return the buffers of a codebook after three forward passes over every `step`-th row, from row `first` on."""
    torch.manual_seed(0)
    model = hf_bam.patch(marian(), family="quantized", num_codes=5, decay=0.5, revive_below=0.0).train()
    book = model.get_decoder().bam.memory
    torch.nn.init.normal_(book.codes)
    book.counts.fill_(1.0)
    book.sums.copy_(book.codes)
    book.updates.fill_(1)
    torch.manual_seed(1)
    batch = translation((7, 5, 3, 6, 2, 7, 4, 4))
    own = {name: tensor[first::step].contiguous() for name, tensor in batch.items()}
    wrapped = DistributedDataParallel(model) if distributed.is_initialized() else model
    for _ in range(3):
        wrapped(**own).loss.backward()
    return dict(book.named_buffers())


def main(path):
    alone = trained(0, 1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    together = trained(rank, 2)
    torch.save((alone, together), f"{path}-{rank}")
    distributed.destroy_process_group()
