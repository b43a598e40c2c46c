"""Concentration of the contextual prior on the one key that matters, by beta, on a small synthetic task."""

import math

import torch
from transformers import BertConfig, BertForSequenceClassification

import hf_bam

LENGTH = 16


def marked_token_task(generator, size):
    """Return a batch and the positions of its marked tokens.

    The label is the token at the one position whose token type is 1; the other tokens are random. A model of one layer
    can only find the label by attention to the marked token.
    """
    ids = torch.randint(3, 5, (size, LENGTH), generator=generator)
    position = torch.randint(1, LENGTH, (size, 1), generator=generator)
    types = torch.zeros_like(ids).scatter(1, position, 1)
    labels = ids.gather(1, position)[:, 0] - 3
    ids[:, 0] = 2
    return {"input_ids": ids, "token_type_ids": types, "labels": labels}, position


def train(seed=0, steps=400, **settings):
    """Train a model; return its accuracy, the relative entropy of the prior, and its mass on the marked key."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = {"vocab_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 2}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "intermediate_size": 48}
    model = hf_bam.patch(BertForSequenceClassification(BertConfig(**sizes, **rates)), **settings).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        model(**marked_token_task(generator, 64)[0]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    batch, position = marked_token_task(generator, 256)
    outputs = []
    layer = model.bert.encoder.layer[0].attention.self.bam
    layer.prior.register_forward_hook(lambda module, args, output: outputs.append(output.detach()))
    accuracy = (model(**batch).logits.argmax(-1) == batch["labels"]).float().mean().item()
    psi = outputs[0].exp()[:, :, 0]  # (B, H, S)
    entropy = -(psi * psi.log()).sum(-1).mean().item() / math.log(LENGTH)
    mass = psi.gather(-1, position[:, None].expand(-1, psi.shape[1], 1)).mean().item()
    return {"accuracy": accuracy, "entropy": entropy, "mass": mass}


SETTINGS = (
    {"beta": 1000.0},
    {},
    {"beta": 10.0},
    {"beta": 1.0},
    {"beta": 0.01},
    {"beta": 0.01, "prior_shape": "psi"},
    {"noise": "key"},
    {"family": "lognormal"},
)


def rows(seeds=(0, 1, 2, 3, 4)):
    for settings in SETTINGS:
        yield {"settings": settings, "uniform_mass": 1 / LENGTH, "runs": [train(seed, **settings) for seed in seeds]}
