"""The KL of a family in a model: it ignores padding, and its gradient reaches the projections."""

import torch
from torch.nn.functional import pad

import hf_bam

from ..models import bert, classification


def check_kl_of_padding(family, names):
    """Compare the KL with and without further padding; projections with these names have a gradient."""
    torch.manual_seed(0)
    model, batch = hf_bam.patch(bert().double(), family=family, layers=[0]).train(), classification()
    wide = {
        "input_ids": pad(batch["input_ids"], (0, 4), value=1),
        "attention_mask": pad(batch["attention_mask"], (0, 4)),
    }
    narrow = model(**batch).kl
    torch.testing.assert_close(model(**wide, labels=batch["labels"]).kl, narrow)
    narrow.backward()
    attention = model.bert.encoder.layer[0].attention.self
    for name in names:
        assert getattr(attention, name).weight.grad.abs().max() > 0
