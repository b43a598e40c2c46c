"""The equations of the recurrent model for one sentence pair, token by token, with `torch.nn` cells alone."""

import math

import torch
from torch import nn

from .cases import PAD


def cell(weights, path, suffix=""):
    """Return an LSTM cell with the weights of a layer."""
    values = {name: weights[f"{path}.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    made = nn.LSTMCell(values["weight_ih"].shape[1], values["weight_hh"].shape[1], dtype=torch.float64)
    made.load_state_dict(values)
    return made


def run(made, inputs):
    """Return the states of a cell after each input, and its last cell state."""
    state, outputs = None, []
    for x in inputs:
        state = made(x[None], state)
        outputs.append(state[0][0])
    return outputs, state[1][0]


def encode(weights, ids, layers):
    """Return the memory (S, D) and the final hidden and cell states of each layer."""
    table = weights["model.encoder.embed_tokens.weight"]
    states, finals = [table[i] * math.sqrt(table.shape[1]) for i in ids], []
    for layer in range(layers):
        path = f"model.encoder.layers.{layer}"
        forward, forward_cell = run(cell(weights, path), states)
        backward, backward_cell = run(cell(weights, path, "_reverse"), states[::-1])
        states = [torch.cat(pair) for pair in zip(forward, backward[::-1], strict=True)]
        finals.append((torch.cat([forward[-1], backward[-1]]), torch.cat([forward_cell, backward_cell])))
    return torch.stack(states), finals


def attend(weights, query, memory, heads):
    """Return the context vector (D,) and the weights (H, S)."""
    q, k, v = (weights[f"model.decoder.cross_attn.{name}_proj.weight"] for name in "qkv")
    size = len(query) // heads
    contexts, alignments = [], []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = [(q[part] @ query) @ (k[part] @ m) / math.sqrt(size) for m in memory]
        alignment = torch.softmax(torch.stack(scores), dim=0)
        contexts.append(sum(a * (v[part] @ m) for a, m in zip(alignment, memory, strict=True)))
        alignments.append(alignment)
    return torch.cat(contexts), torch.stack(alignments)


class Decoder:
    """Decoder of one source: `step` takes a token and returns the logits (V,) of the next one."""

    def __init__(self, model, ids):
        self.weights, self.config = model.state_dict(), model.config
        self.memory, finals = encode(self.weights, ids, self.config.num_hidden_layers)
        self.states = [(hidden[None], own[None]) for hidden, own in finals]
        paths = [f"model.decoder.layers.{layer}" for layer in range(len(finals))]
        self.cells = [cell(self.weights, path) for path in paths]
        self.context = torch.zeros_like(self.memory[0])
        self.alignments = []

    @torch.no_grad()
    def step(self, token):
        table = self.weights["model.decoder.embed_tokens.weight"]
        x = table[token] * math.sqrt(table.shape[1])
        if self.config.input_feeding:
            x = torch.cat([x, self.context])
        for layer, made in enumerate(self.cells):
            self.states[layer] = made(x[None], self.states[layer])
            x = self.states[layer][0][0]
        self.context, alignment = attend(self.weights, x, self.memory, self.config.num_attention_heads)
        self.alignments.append(alignment)
        output = torch.tanh(self.weights["model.decoder.readout.weight"] @ torch.cat([x, self.context]))
        return self.weights["lm_head.weight"] @ output


def teacher_forced(model, ids, target):
    """Return the logits (T, V) and alignments (H, T, S) of a target that the decoder reads shifted to the right."""
    decoder = Decoder(model, ids)
    logits = torch.stack([decoder.step(token) for token in [PAD, *target[:-1]]])
    return logits, torch.stack(decoder.alignments, dim=1)
