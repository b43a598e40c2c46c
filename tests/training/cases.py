"""Small models, and features to train them on."""

import json
from hashlib import sha256

import torch
from datasets import Dataset

import hf_bam

from ..models import PAD, bert, marian

DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
NO_DROPOUT = dict.fromkeys(DROPOUT, 0.0)


def classifier(plain=False, **changes):
    """Return a BERT of one layer, with stochastic attention unless `plain`, and with dropout unless `NO_DROPOUT`."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "initializer_range": 0.3}
    model = bert(**{**sizes, **DROPOUT, "num_labels": 2, **changes})
    return model if plain else hf_bam.patch(model, k=2.0, annealing="linear", annealing_rate=0.02)


def translator():
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return marian(**sizes, **heads, init_std=0.3)


def examples(number=22, generator_seed=0):
    """Return token ids of different lengths; the label is whether the first one is odd."""
    generator = torch.Generator().manual_seed(generator_seed)
    lengths = torch.randint(2, 12, (number,), generator=generator).tolist()
    ids = [torch.randint(3, 60, (length,), generator=generator).tolist() for length in lengths]
    return Dataset.from_dict({"input_ids": ids, "labels": [row[0] % 2 for row in ids]})


def pairs(number=16):
    """Return token ids, and token ids of other lengths as labels."""
    rows = examples(number)["input_ids"]
    return Dataset.from_dict({"input_ids": rows, "labels": [row[:2] * (1 + i % 3) for i, row in enumerate(rows)]})


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([list(row) + [value] * (longest - len(row)) for row in rows])


def collate(features):
    ids = padded([feature["input_ids"] for feature in features], PAD)
    labels = [feature["labels"] for feature in features]
    labels = torch.tensor(labels) if isinstance(labels[0], int) else padded(labels, -100)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other):
    """Return whether two sets of weights are bit-equal."""
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def rewrite(path, content):
    """Change a file of a checkpoint, and the manifest with it."""
    path.write_bytes(content)
    manifest = path.with_name("manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), path.name: sha256(content).hexdigest()}))
