"""Tiny recurrent models without dropout, in double precision, and batches for them."""

import torch

from hf_bam.models import RecurrentConfig, RecurrentForConditionalGeneration

EOS, PAD, VOCABULARY = 0, 1, 30
LENGTHS = (6, 4, 1)


def build(**changes):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 12, "num_hidden_layers": 2, "dropout": 0.0}
    return RecurrentForConditionalGeneration(RecurrentConfig(**{**sizes, **changes})).double().eval()


def source(lengths=LENGTHS, width=None):
    """Return token ids with padding on the right."""
    mask = (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(2, VOCABULARY, mask.shape)
    return {"input_ids": ids.where(mask.bool(), torch.tensor(PAD)), "attention_mask": mask}


def batch(lengths=LENGTHS):
    """Return a source and labels of one token more, padded with -100."""
    targets = source(tuple(n + 1 for n in lengths))
    return source(lengths) | {
        "labels": targets["input_ids"].where(targets["attention_mask"].bool(), torch.tensor(-100))
    }
